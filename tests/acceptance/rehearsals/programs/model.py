"""Makes a folder with a config.json of a family and a tokenizer: python model.py FAMILY FOLDER."""

# mypy: ignore-errors

import sys

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoConfig, PreTrainedTokenizerFast

CHAT = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def main(family: str, folder: str) -> None:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(special_tokens=SPECIAL, initial_alphabet=alphabet)
    tokenizer.train_from_iterator(["What is one and one? It is two."], trainer)
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=SPECIAL[2],
        pad_token=SPECIAL[0],
        model_input_names=["input_ids", "attention_mask"],  # as Qwen's, without token_type_ids
    )
    wrapped.chat_template = CHAT
    wrapped.save_pretrained(folder)
    config = AutoConfig.for_model(family)
    config.architectures = [f"{family.capitalize()}ForCausalLM"]
    config.dtype = "bfloat16"
    config.save_pretrained(folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
