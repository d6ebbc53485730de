from fireiron.jit.doctor import facts
from fireiron.jit.driver import probe
from fireiron.jit.timing import summarise


def test_doctor_lists_everything():
    found = {fact.what: fact for fact in facts()}
    assert {"Python", "fireiron", "driver", "GPU", "NVRTC", "nvdisasm", "cache", "works"} <= set(found)
    assert "compile" in found["works"].value
    assert ("run" in found["works"].value.split(", ")) == (not probe().problem)


def test_quantiles():
    timing = summarise([float(i) for i in range(101)], "events", flops=5e7, nbytes=5e4)
    assert (timing.median_us, timing.p20, timing.p80, timing.samples) == (50, 20, 80, 101)
    assert timing.tflops == 1.0
    assert timing.gbps == 1.0
    assert str(timing) == "50.00 us (20.00 to 80.00) · 1.0 TFLOP/s · 1 GB/s · events"
