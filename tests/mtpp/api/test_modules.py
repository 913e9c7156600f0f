"""PyTorch modules and exported programs in place of graphs: layers, sizes that depend on values, refusals."""

import json

import pytest

import mtpp
from instances import InputError

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
nn = torch.nn

X = torch.ones(2, 16)


class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(4))
        self.head = nn.Linear(16, 4)

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return self.head(x)


class Tokens(nn.Module):
    """Weights of the whole beside those of its modules, a module between layers, and one that never runs."""

    def __init__(self):
        super().__init__()
        self.cls, self.unused = nn.Parameter(torch.zeros(1, 16)), nn.Linear(16, 2)
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(4))
        self.between = nn.Linear(16, 16)
        self.scale = nn.Parameter(torch.ones(16))
        self.head = nn.Linear(16, 4)
        self.register_buffer("bias", torch.ones(16))

    def forward(self, x):
        x = torch.cat([x, self.cls])
        for number, layer in enumerate(self.layers):
            x = layer(self.between(x) if number == 2 else torch.tanh(x))
        return self.head(x * self.scale + self.bias)


class Positive(nn.Module):
    def forward(self, x):
        return x[x > 0] * 2


class Branch(nn.Module):
    def forward(self, x):
        return x * 2 if x.sum() > 0 else x


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.router, self.experts = nn.Linear(16, 3), nn.ModuleList(nn.Linear(16, 16) for _ in range(3))

    def forward(self, x):
        chosen, y = self.router(x).argmax(-1), torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            rows = torch.where(chosen == number)[0]
            y = y.index_add(0, rows, expert(x[rows]))
        return y


class Changing(nn.Module):
    """Draws random numbers, counts its calls, and keeps a running mean."""

    def __init__(self):
        super().__init__()
        self.calls, self.linear = 0, nn.Linear(16, 3)
        self.register_buffer("mean", torch.zeros(3))

    def forward(self, x):
        self.calls += 1
        y = self.linear(x + torch.rand_like(x))
        self.mean += y.mean(0)
        return y - self.mean


def test_modules_functions_and_programs_are_graphs():
    graph = mtpp.load(Stack(), args=(X,))
    assert graph.name == "Stack"
    assert "layers.3.addmm_3" in graph.names
    assert mtpp.load(Stack, args=(X,)).content_hash == graph.content_hash
    assert mtpp.load(Stack(), kwargs={"x": X}).content_hash == graph.content_hash
    program = mtpp.load(torch.export.export(Stack(), (X,)))
    assert program.names == graph.names


def test_all_verbs_take_a_module():
    words = {"args": (X,), "bandwidth": "1GB/s"}
    assert mtpp.certify(Stack(), k=2, time_limit=5, **words).ratio == pytest.approx(1)
    assert mtpp.partition(Stack(), k=2, time_limit=1, **words).partition.instance.k == 2
    assert mtpp.place(Stack(), 2, time_limit=1, **words).cost > 0
    assert mtpp.plan(Stack(), "1x2", 4, time_limit=2, **words).cost > 0


def test_bug_a_device_map_says_where_weights_of_no_running_module_are():
    """accelerate wants a device for each parameter; those that the network itself holds were left out."""
    found = mtpp.partition(Tokens(), 2, "kahn", args=(X,), bandwidth=1e18, runtime="accelerate")
    devices = json.loads(mtpp.export(found, "accelerate"))
    modules = {"between", "unused.weight", "unused.bias", "head", *(f"layers.{i}" for i in range(4))}
    assert set(devices) == {"cls", "scale", "bias", *modules}
    # It moves weights of the network itself to the device of the first module, and here the last code reads some.
    assert {devices[name] for name in ("cls", "scale", "bias", "layers.3")} == {0}


def test_a_module_that_runs_in_two_stages_has_no_device():
    class Shared(Tokens):
        def forward(self, x):
            for layer in self.layers:
                x = self.between(layer(x))
            return self.head(x)

    words = {"args": (X,), "bandwidth": 1e18}
    with pytest.raises(InputError, match=r"in stage 0 has to be where .* is, in stage 1"):
        mtpp.export(mtpp.partition(Shared(), 2, "kahn", runtime="torch", **words), "accelerate")
    found = mtpp.partition(Shared(), 2, "kahn", runtime="accelerate", **words)
    devices = json.loads(mtpp.export(found, "accelerate"))
    assert len({devices[module] for module in ("between", "layers.1", "layers.2", "layers.3")}) == 1


@pytest.mark.parametrize(
    ("make", "remedy"),
    [
        (lambda: nn.LazyLinear(4), "run the module once on the example before"),
        (lambda: nn.Sequential(torch.jit.script(nn.Linear(16, 2))), "as it was before it was scripted"),
    ],
)
@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")
def test_modules_that_are_not_ready_are_refused_with_a_remedy(make, remedy):
    module = make()
    with pytest.raises(InputError, match=f"cannot be exported: .*; .*{remedy}"):
        mtpp.load(module, args=(X,))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({}, r"the shapes of its inputs are missing; give args=\(example,\)"),
        ({"args": X}, "give the inputs in a tuple"),
        ({"args": (X[:, :3],)}, "Stack cannot be exported: RuntimeError: a and b must have same reduction dim"),
        ({"kwargs": {"z": X}}, "give args and kwargs as forward takes them"),
        ({"args": (X,), "level": "layer"}, "leave out level"),
        ({"args": (X,), "dims": {"u7": 3}}, "no open size u7; it has none"),
        ({"args": (X,), "dims": {"u7": "x"}}, "u7 is 'x'; give a whole number"),
    ],
)
def test_examples_that_do_not_fit_are_refused(words, message):
    with pytest.raises(InputError, match=message):
        mtpp.load(Stack(), **words)


def test_examples_are_of_modules_alone():
    for graph in ("bert-base", mtpp.load("bert-base")):
        with pytest.raises(InputError, match="leave out args"):
            mtpp.load(graph, args=(X,))
    with pytest.raises(InputError, match="a program has its shapes; leave out args"):
        mtpp.load(torch.export.export(Stack(), (X,)), args=(X,))


def test_a_size_that_depends_on_values_is_given_or_seen():
    example = torch.tensor([1.0, -1.0, 2.0])
    with pytest.raises(InputError, match=r"1 size has no value: u0; .* observe=True"):
        mtpp.load(Positive(), args=(example,))
    assert mtpp.load(Positive(), args=(example,), observe=True).attributes["sizes"] == {"u0": 2}
    program = torch.export.export(Positive(), (example,))
    assert mtpp.load(program, observe=True).attributes["sizes"] == {"u0": 2}
    given = mtpp.load(Positive(), args=(example,), dims={"u0": 100})
    assert max(given.tensors.bytes.tolist()) == 400


def test_all_open_sizes_are_named_at_once():
    with pytest.raises(InputError, match="3 sizes have no value: u0, u1, u2"):
        mtpp.load(Experts(), args=(X,))
    graph = mtpp.load(Experts(), args=(X,), observe=True)
    assert sum(graph.attributes["sizes"].values()) == 2
    assert not any("built-in" in name for name in graph.attributes.get("unknown_operators", ()))
    with pytest.raises(InputError, match="give a module with weights, not on the meta device"):
        mtpp.load(Experts, args=(X,), observe=True)


def test_a_branch_on_values_is_refused_with_a_remedy(capfd):
    with pytest.raises(InputError, match=r"Branch cannot be exported: .*; write branches on values .* torch\.cond"):
        mtpp.load(Branch(), args=(X,))
    assert capfd.readouterr() == ("", "")


def test_a_module_that_changes_itself_is_priced_as_one_pass():
    module = Changing()
    graph = mtpp.load(module, args=(X,))
    assert graph.attributes["flops"] == 2 * 2 * 16 * 3
    assert not module.mean.any()
