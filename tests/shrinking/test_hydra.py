from ascend_doctor.shrinking.hydra import count_ranks, is_hydra, parallel_sizes, shrink_overrides
from ascend_doctor.shrinking.words import Option

WORDS = (
    "data.train_batch_size=1024",
    "actor_rollout_ref.rollout.tensor_model_parallel_size=8",
    "actor_rollout_ref.actor.megatron.pipeline_model_parallel_size=${pp}",
    "actor_rollout_ref.actor.optim.lr=1e-6",
    "actor_rollout_ref.rollout.n=5",
    "trainer.n_gpus_per_node=16",
    "trainer.nnodes=2",
    "trainer.logger=console",
)


def test_overrides_are_read() -> None:
    options = [Option("", WORDS)]
    assert is_hydra(options)
    assert not is_hydra([Option("--num-layers", ("2",))])
    assert parallel_sizes(options) == {"tensor-model-parallel-size": 8}
    assert count_ranks(options) == 32
    assert count_ranks([Option("", ("trainer.nnodes=2",))]) is None


def test_overrides_are_small_and_on_one_node() -> None:
    assert shrink_overrides(WORDS, 4) == [
        "data.train_batch_size=8",
        "actor_rollout_ref.rollout.tensor_model_parallel_size=2",
        WORDS[2],
        WORDS[3],
        "actor_rollout_ref.rollout.n=2",
        "trainer.n_gpus_per_node=4",
        "trainer.nnodes=1",
        "trainer.logger=console",
    ]


def test_a_batch_that_is_not_given_is_smaller_than_the_data() -> None:
    words = ["model.path=a", "trainer.nnodes=1"]
    assert shrink_overrides(words, 2) == [*words, "data.train_batch_size=8"]
