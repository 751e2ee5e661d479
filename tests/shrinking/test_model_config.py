from ascend_doctor.shrinking.model_config import shrink_config


def test_sizes_are_small_in_every_part() -> None:
    config = {
        "architectures": ["Qwen3MoeForCausalLM"],
        "num_hidden_layers": 48,
        "hidden_size": 2048,
        "num_attention_heads": 32,
        "num_key_value_heads": 1,
        "vocab_size": 151936,
        "tie_word_embeddings": True,
        "layer_types": ["linear", "linear", "linear", "full"] * 12,
        "text_config": {"num_experts": 128, "num_experts_per_tok": 8, "rope_theta": 1e6},
    }
    assert shrink_config(config, 2) == {
        "architectures": ["Qwen3MoeForCausalLM"],
        "num_hidden_layers": 2,
        "hidden_size": 64,
        "num_attention_heads": 4,
        "num_key_value_heads": 1,
        "vocab_size": 151936,
        "tie_word_embeddings": True,
        "layer_types": ["linear", "full"],
        "text_config": {"num_experts": 4, "num_experts_per_tok": 2, "rope_theta": 1e6},
    }
