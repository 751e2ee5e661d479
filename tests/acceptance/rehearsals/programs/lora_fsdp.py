"""LoRA of a small Llama by peft under accelerate's FSDP, on the device ASCEND_DOCTOR_DEVICE names.

Its first line is the time at which it came to run.
"""

# mypy: ignore-errors
# accelerate, peft and transformers are in the interpreter that runs this, not in the checking one.

import os
import sys
import time

print(f"started {time.time():.3f}", flush=True)
ON_CPU = os.environ.get("ASCEND_DOCTOR_DEVICE", "npu") == "cpu"
if ON_CPU:  # transformers imports torch_npu wherever it finds it
    sys.modules["torch_npu"] = None

import torch
from accelerate import Accelerator, FullyShardedDataParallelPlugin
from peft import LoraConfig, get_peft_model
from torch.utils.data import DataLoader, TensorDataset
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.models.llama.modeling_llama import LlamaDecoderLayer

STEPS = 10
SEED = 1234
WIDTH = 64
make_optimizer = torch.optim.AdamW


def make_model() -> torch.nn.Module:
    torch.manual_seed(SEED)
    config = LlamaConfig(
        vocab_size=1000,
        hidden_size=WIDTH,
        intermediate_size=2 * WIDTH,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
    )
    adapters = LoraConfig(r=8, target_modules=["q_proj", "v_proj", "down_proj"], lora_dropout=0.0)
    return get_peft_model(LlamaForCausalLM(config), adapters)


def main() -> None:
    plugin = FullyShardedDataParallelPlugin(
        use_orig_params=True,
        auto_wrap_policy="transformer_based_wrap",
        transformer_cls_names_to_wrap=[LlamaDecoderLayer.__name__],
    )
    accelerator = Accelerator(cpu=ON_CPU, fsdp_plugin=plugin)
    assert accelerator.device.type == ("cpu" if ON_CPU else "npu")
    model = make_model()
    rows = torch.randint(0, 1000, (STEPS * 4, 64))
    loader = DataLoader(TensorDataset(rows), batch_size=2)
    model = accelerator.prepare(model)
    optimizer = make_optimizer([p for p in model.parameters() if p.requires_grad], lr=1e-3)
    optimizer, loader = accelerator.prepare(optimizer, loader)
    for number, (tokens,) in enumerate(loader, 1):
        start = time.monotonic()
        optimizer.zero_grad()
        loss = model(input_ids=tokens, labels=tokens).loss
        accelerator.backward(loss)
        optimizer.step()
        value = accelerator.reduce(loss.detach(), "mean").item()
        elapsed = 1000 * (time.monotonic() - start)
        if accelerator.is_main_process:
            print(
                f"elapsed time per iteration (ms): {elapsed:.1f} | lm loss: {value:.6E} | "
                f"step {number}",
                flush=True,
            )
    accelerator.end_training()


if __name__ == "__main__":
    main()
