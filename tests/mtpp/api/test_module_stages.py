"""PyTorch modules in stages that run: outputs of the whole module, own weights in each stage, refusals."""

import pytest

import mtpp
from instances import InputError

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
nn = torch.nn

X = torch.linspace(-1, 2, 32).reshape(2, 16)
QUICK = {"bandwidth": "1TB/s", "method": "kahn"}


class Tied(nn.Module):
    """A table that is read at both ends, a skip, a buffer, views, and outputs of all kinds."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.arange(64.0).reshape(4, 16) / 64)
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(4))
        self.register_buffer("shift", torch.arange(16.0))

    def forward(self, x, *, scale, again=None):
        y = x + self.table[0]
        for layer in self.layers:
            y = torch.relu(layer(y)) + self.shift
        left, right = (y * scale).split(8, -1)
        return {"logits": y @ self.table.T, "parts": [left, right.T], "none": None, "given": x, "three": 3}


class Through(nn.Module):
    def __init__(self, inner, train=False):
        super().__init__()
        self.inner = inner
        self.train(train)

    def forward(self, x):
        return self.inner(torch.relu(x)) * 2 + 1


class Giving(nn.Module):
    """Returns its own weights, too."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(16, 16)
        self.register_buffer("shift", torch.arange(16.0))

    def forward(self, x):
        return torch.relu(self.linear(x)) * 2, self.linear.weight, self.shift, self.shift.view(4, 4)


class InPlace(nn.Module):
    def forward(self, x):
        y = x * 2
        z = torch.tanh(y)
        y.relu_()
        return torch.exp(y) + z


class Counting(nn.Module):
    """Gives something else at each call."""

    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return torch.relu(x * 2) + self.calls


class Cond(nn.Module):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda y: torch.relu(y) * 2, lambda y: y - 1, (x,)) + 1


def leaves(found):
    return [leaf for leaf in torch.utils._pytree.tree_leaves(found) if isinstance(leaf, torch.Tensor)]


@pytest.mark.parametrize("k", [1, 2, 3, 9])
def test_stages_give_what_the_module_gives(k):
    """Also on other inputs than the example, whatever the order of keywords."""
    module = Tied()
    cut = mtpp.split(module, k, args=(X,), kwargs={"scale": X[:, :1]}, **QUICK)
    assert len(cut.stages) == len(set(cut.result.partition.block.tolist())) <= k
    assert cut.difference < 1e-6
    found, expected = cut(X * 3, scale=X[:, 1:2]), module(X * 3, scale=X[:, 1:2])
    assert list(found) == list(expected)
    assert (found["none"], found["three"]) == (None, 3)
    for ours, theirs in zip(leaves(found), leaves(expected), strict=True):
        torch.testing.assert_close(ours, theirs)
    assert "from the module's" in repr(cut)


def test_each_stage_holds_the_parameters_that_it_uses():
    """A tied one is held by both stages, and is the module's own tensor."""
    module = Tied()
    cut = mtpp.split(module, 3, args=(X,), kwargs={"scale": X[:, :1]}, **QUICK)
    held = [{id(weight) for weight in stage.parameters()} for stage in cut.stages]
    own = {id(weight) for weight in module.parameters()}
    assert set.union(*held) == own
    assert [sum(weight in part for part in held) for weight in own].count(2) == 1
    sizes = [sum(weight.numel() * 4 for weight in (*stage.parameters(), *stage.buffers())) for stage in cut.stages]
    assert sizes == cut.result.partition.param_bytes.tolist()


def test_a_program_and_a_given_partition_are_split():
    module = Tied()
    program = torch.export.export(module, (X,), {"scale": X[:, :1]})
    found = mtpp.certify(program, 2, bandwidth="1TB/s", time_limit=2)
    cut = mtpp.split(program, partition=found)
    assert cut.result is found
    assert cut.difference == 0
    again = mtpp.split(module, partition=found.partition, args=(X,), kwargs={"scale": X[:, :1]}, method="kahn")
    assert again.result.partition.block.tolist() == found.partition.block.tolist()
    with pytest.raises(InputError, match="of another model"):
        mtpp.split(Through(nn.Tanh()), partition=found, args=(X,))


def test_a_function_that_builds_the_module_is_cut_without_running():
    cut = mtpp.split(lambda: Through(nn.Linear(16, 16)), 2, args=(X,), **QUICK)
    assert cut.difference is None
    assert all(weight.is_meta for stage in cut.stages for weight in stage.parameters())
    assert mtpp.split(Through(nn.Tanh()), 2, args=(X,), samples=False, **QUICK).difference is None


def test_random_numbers_are_drawn_alike():
    assert mtpp.split(Through(nn.Dropout(0.5), train=True), 2, args=(X,), **QUICK).difference == 0


def test_bug_a_tensor_that_is_changed_is_read_after_the_change():
    """Programs of operators that need no decomposition kept those that work in place, without an edge behind them."""
    names = mtpp.load(InPlace(), args=(X,)).names
    assert {"relu", "relu_"} & set(names) == {"relu"}
    for k in (2, 5):
        assert torch.equal(mtpp.split(InPlace(), k, args=(X,), **QUICK)(-X), InPlace()(-X))


def test_bug_weights_that_are_returned_are_outputs_of_the_last_stage():
    """A buffer that no operator reads was a KeyError, and the owner of a returned parameter counted as a stage."""
    module = Giving()
    cut = mtpp.split(module, 3, args=(X,), **QUICK)
    assert len(cut.stages) == len(set(cut.result.partition.block.tolist()))
    for ours, theirs in zip(cut(X), module(X), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_a_branch_on_values_runs_in_its_stage():
    cut = mtpp.split(Cond(), 2, args=(X,), **QUICK)
    assert len(cut.stages) == 2
    for x in (X, -X):
        assert torch.equal(cut(x), Cond()(x))


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (
            Through(nn.BatchNorm1d(16), train=True),
            r"changes its buffers or inputs \(inner\.running_mean, .*\); .*inference",
        ),
        (Counting(), "it gives something else at each call .* in eval mode"),
        (nn.Identity(), "no operator of it computes anything"),
    ],
)
def test_modules_that_cannot_be_cut_are_refused_in_a_line(module, message):
    with pytest.raises(InputError, match=message) as caught:
        mtpp.split(module, 2, args=(X,), **QUICK)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"args": X, "out": "folder"}, "give the inputs in a tuple"),
        ({}, r"give args=\(example,\)"),
        ({"args": (X,), "dims": {"u0": 3}}, "leave out dims"),
        ({"args": (X,), "cost": "measured"}, "leave out cost"),
        ({"args": (X,), "method": "khan"}, "kahn"),
        ({"args": (X,), "bandwidth": "fast"}, "bandwidth"),
    ],
)
def test_words_that_do_not_fit_are_refused(words, message):
    with pytest.raises(InputError, match=message):
        mtpp.split(Through(nn.Tanh()), 2, **words)


def test_a_module_becomes_files_of_stages(tmp_path):
    """By way of ONNX; what has no weights is refused, with nothing written."""
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    module = Through(nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4)))
    found = mtpp.split(module, 2, args=(X,), out=tmp_path / "stages", **QUICK)
    assert "/inner/inner.0/Gemm" in found.partition.instance.graph.names
    agreement = mtpp.run(tmp_path / "stages", requests=4).agreement
    assert agreement.exact == agreement.requests > 0
    for model in (lambda: module, torch.export.export(module, (X,))):
        with pytest.raises(InputError, match="made from a module with its weights"):
            mtpp.split(model, 2, args=(X,), out=tmp_path / "none", **QUICK)
    with pytest.raises(InputError, match=r"Cond cannot be exported to ONNX: .*export it and split the file"):
        mtpp.split(Cond(), 2, args=(X[:, :1],), out=tmp_path / "none", **QUICK)
    assert not (tmp_path / "none").exists()


def test_other_inputs_than_the_example_are_refused():
    cut = mtpp.split(Through(nn.Tanh()), 2, args=(X,), **QUICK)
    for args, kwargs in (((), {}), ((X, X), {}), ((X,), {"y": X}), (([X],), {})):
        with pytest.raises(InputError, match="by place and name as in the example"):
            cut(*args, **kwargs)
    with pytest.raises(InputError, match="is an ONNX file or a PyTorch module, no int"):
        mtpp.split(3, 2)
    with pytest.raises(InputError, match="name the folder"):
        mtpp.split("model.onnx", 2)
