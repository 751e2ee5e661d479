import msgspec

from ascend_doctor.facts import Distribution
from ascend_doctor.findings import Level
from tests.checks.levels import cannot_tell, fails, passes, remedy_of, skips, warns
from tests.checks.machine import ROOT, dist, having, healthy, packages, run


def test_any_package_that_stands_on_torch_is_looked_at() -> None:
    other = dist("torchvision", "0.20.0", requires=("numpy", "torch==2.5.0"))
    warns("declared-requirements", packages(healthy(), other), "torchvision 0.20.0")
    apart = dist("our-tool", "1.0", requires=("pyyaml>=99",))
    before = run("declared-requirements", healthy())
    assert run("declared-requirements", packages(healthy(), apart)) == before


def test_a_placeholder_of_mindspeed() -> None:
    facts = packages(healthy(), dist("mindspeed", "0.0.1.dev1"))
    finding = fails("mindspeed-placeholder", facts, "mindspeed 0.0.1.dev1 is a placeholder")
    assert remedy_of(finding).commands == ("/venv/bin/python -m pip uninstall -y mindspeed",)
    assert "Ascend/MindSpeed" in remedy_of(finding).summary
    passes("package-namesakes", facts)


def test_namesakes() -> None:
    facts = packages(healthy(), dist("twinkle", "0.0.5"), dist("topi", "1.0"))
    findings = run("package-namesakes", facts)
    assert [finding.level for finding in findings] == [Level.WARNING, Level.WARNING]
    assert "Twitter" in findings[0].observed
    assert findings[0].required == "twinkle-kit"
    assert findings[1].required == "not installed"


def test_checkouts_and_modules_of_cann_are_no_namesakes() -> None:
    facts = packages(
        healthy(),
        dist("megatron", "0.1", editable=True),
        dist("swift", "1.0", direct_url="file:///src/swift"),
        Distribution(name="auto-tune", version="0.1.0", location=f"{ROOT}/python/site-packages"),
        Distribution(name="acl", version="0.1", location=f"{ROOT}/tools/somewhere"),
        Distribution(name="atb", version="1", location="/by/another/name/python/site-packages"),
        dist("apex", "0.1+ascend"),
    )
    passes("package-namesakes", facts)
    cannot_tell("package-namesakes", packages(healthy(), dist("te", "odd")), "odd")


def test_two_metadata_of_one_version_are_one_copy() -> None:
    first = dist("cryptography", "38.0.4")
    copy = msgspec.structs.replace(first, shadowed=True)
    passes("package-namesakes", packages(healthy(), first, copy))
    older = msgspec.structs.replace(copy, version="3.4")
    warns("package-namesakes", packages(healthy(), first, older), "installed twice")


def test_nvidias_transformer_engine_is_an_error_on_an_npu() -> None:
    facts = packages(healthy(), dist("transformer-engine", "2.1"))
    finding = fails("nvidia-te-present", facts, "NVIDIA's Transformer Engine is installed")
    assert remedy_of(finding).commands == (
        "/venv/bin/python -m pip uninstall -y transformer-engine",
    )
    parts = packages(
        healthy(),
        dist("transformer-engine", "2.1", editable=True),
        dist("transformer-engine-cu12", "2.1"),
    )
    fails("nvidia-te-present", parts, "transformer-engine-cu12")
    skips("nvidia-te-present", facts, device="cuda")


def test_a_transformer_engine_from_a_checkout_may_be_that_for_npus() -> None:
    facts = packages(healthy(), dist("transformer-engine", "0.1", editable=True))
    warns("nvidia-te-present", facts, "whose it is could not be told")


def test_packages_for_cuda() -> None:
    warns("cuda-packages", packages(healthy(), dist("apex", "0.1")), "apex 0.1")
    warns("cuda-packages", packages(healthy(), dist("flash-attn", "2.8")), "flash-attn")
    fine = packages(healthy(), dist("apex", "0.1+ascend"))
    passes("cuda-packages", fine)
    pyramid = packages(healthy(), dist("apex", "0.9.10.dev0"))
    passes("cuda-packages", pyramid)
    warns("package-namesakes", pyramid, "Pyramid")


def test_requirements_that_are_not_met() -> None:
    bridge = dist(
        "mcore-bridge",
        "1.2.3",
        requires=(
            "transformers<5; python_version >= '3.10'",
            "peft>=99; python_version < '3.0'",
            "numpy>=3; extra == 'x'",
            "numpy",
            "absent>=1",
            "not a requirement !",
            "megatron-core>=9",
        ),
    )
    finding = warns(
        "declared-requirements",
        packages(healthy(), bridge),
        "mcore-bridge 1.2.3 declares other versions",
        "transformers 5.2.0",
        "transformers<5",
    )
    assert "numpy" not in finding.required
    assert remedy_of(finding).commands == ("/venv/bin/python -m pip check",)


def test_without_a_training_package_nothing_is_compared() -> None:
    bare = having(healthy(), "python", distributions=(dist("requests", "2"),))
    skips("declared-requirements", bare)
    odd = packages(healthy(), dist("transformers", "odd"))
    passes("declared-requirements", odd)


def test_python_that_a_package_refuses() -> None:
    facts = packages(healthy(), dist("megatron-core", "0.17.1", requires_python=">=3.12"))
    warns("python-requires", facts, "megatron-core 0.17.1 does not take Python 3.11.9")
    odd = packages(healthy(), dist("x", "1", requires_python="odd"))
    passes("python-requires", odd)
    hidden = packages(healthy(), dist("x", "1", requires_python=">=9", shadowed=True))
    passes("python-requires", hidden)


def test_a_mindspeed_of_another_version_is_no_placeholder() -> None:
    facts = packages(healthy(), dist("mindspeed", "0.12.1"), dist("swift", "2.0"))
    passes("mindspeed-placeholder", facts)


def test_a_python_that_a_package_takes() -> None:
    facts = packages(healthy(), dist("megatron-core", "0.16.1", requires_python=">=3.10"))
    passes("python-requires", facts)
