"""The roofline cost model."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instances.devices import Device
from instances.errors import InputError

positive = st.floats(min_value=1e-3, max_value=1e18)
amount = st.just(0.0) | st.floats(min_value=1e-3, max_value=1e18)  # no quotient underflows


def test_compute_bound_and_memory_bound_operators():
    """The slower of computing and moving data counts, in seconds."""
    device = Device(peak_flops=100.0, memory_bandwidth=10.0)
    assert device.time(flops=500.0, bytes_moved=20.0) == 5.0
    assert device.time(flops=500.0, bytes_moved=80.0) == 8.0


def test_default_device_is_100_teraflops_and_1500_gigabytes_per_second():
    assert Device().time(100e12, 0) == 1.0
    assert Device().time(0, 1.5e12) == 1.0


@given(positive, positive, amount, amount)
def test_time_is_never_below_either_roof_and_scales(peak, bandwidth, flops, bytes_moved):
    """Time lies on the higher of the two roofs, and twice the operator takes twice as long."""
    device = Device(peak, bandwidth)
    time = device.time(flops, bytes_moved)
    assert time * peak >= flops * (1 - 1e-12)
    assert time * bandwidth >= bytes_moved * (1 - 1e-12)
    assert device.time(flops, 0) + device.time(0, bytes_moved) >= time
    assert device.time(2 * flops, 2 * bytes_moved) == pytest.approx(2 * time)


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan])
@pytest.mark.parametrize("field", ["peak_flops", "memory_bandwidth"])
def test_device_refuses_what_is_not_positive(field, value):
    with pytest.raises(InputError, match=field):
        Device(**{field: value})


@pytest.mark.parametrize("arguments", [(-1.0, 0.0), (0.0, -1.0), (math.nan, 0.0), (0.0, math.nan)])
def test_time_refuses_negative_amounts(arguments):
    with pytest.raises(InputError, match="must be 0 or more"):
        Device().time(*arguments)
