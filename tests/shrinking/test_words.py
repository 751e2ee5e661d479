import pytest

from ascend_doctor.shrinking.words import Option, split_launch

TORCHRUN = "--nproc_per_node 8 --nnodes=2 --node_rank 0 --master_addr a b --tee 3 train.py"


@pytest.mark.parametrize(
    ("program", "start"),
    [("torchrun", ()), ("python3", ("-m", "torch.distributed.launch"))],
)
def test_a_launcher_is_told_from_its_program(program: str, start: tuple[str, ...]) -> None:
    launch = split_launch(program, [*start, *TORCHRUN.split(), "--num-layers", "4", "--bf16"])
    assert launch.ranks == 16
    assert launch.program == ("train.py",)
    assert launch.options == (Option("--num-layers", ("4",)), Option("--bf16"))
    assert launch.on_one_node(4).words() == [
        *start,
        *("--standalone", "--nproc-per-node=4", "--tee", "3", "train.py"),
        *("--num-layers", "4", "--bf16"),
    ]


def test_a_module_is_a_program() -> None:
    launch = split_launch("python", ["-u", "-m", "verl.trainer.main_ppo", "a.b=1", "c=2"])
    assert launch.program == ("-u", "-m", "verl.trainer.main_ppo")
    assert launch.options == (Option("", ("a.b=1", "c=2")),)
    assert launch.words() == ["-u", "-m", "verl.trainer.main_ppo", "a.b=1", "c=2"]


@pytest.mark.parametrize(
    "words", [[], ["-m"], ["-c", "print(1)"], ["-m", "pip", "list"], ["--version"], ["x.py", "-v"]]
)
def test_other_commands_keep_their_words(words: list[str]) -> None:
    assert split_launch("python", words).words() == words


def test_an_option_of_torchrun_by_module() -> None:
    words = ["--nproc-per-node", "2", "-m", "package.train", "--num-layers=2"]
    assert split_launch("torchrun", words).program == ("-m", "package.train")
    assert split_launch("torchrun", words).options == (Option("--num-layers", ("2",)),)
