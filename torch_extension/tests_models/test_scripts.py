"""Scripts that do not know of acc, in processes of their own, in which the library comes first."""

import ast
import importlib.util
import os
import re
import subprocess
import sys
import textwrap

import pytest
from processes import made_by

TRAINER = """
    from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments
    config = LlamaConfig(
        vocab_size=32, hidden_size=16, intermediate_size=16, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=2,
    )
    data = [{"input_ids": [i, i + 1, i + 2], "labels": [i, i + 1, i + 2]} for i in range(16)]
    args = TrainingArguments(FOLDER, max_steps=2, report_to=[], PRECISION)
    trainer = Trainer(LlamaForCausalLM(config), args, train_dataset=data)
    trainer.train()
    print("on", trainer.model.device)
"""
SCRIPTS = {
    "transformers": TRAINER.replace("PRECISION", ""),
    "transformers in bf16": TRAINER.replace("PRECISION", "bf16=True"),
    "transformers in fp16": TRAINER.replace("PRECISION", "fp16=True"),
    "accelerate": """
        from accelerate import Accelerator
        import torch
        accelerator = Accelerator(mixed_precision="fp16")
        model = torch.nn.Linear(2, 2)
        model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters()))
        accelerator.backward(model(torch.ones(1, 2, device=accelerator.device)).sum())
        optimizer.step()
        print("on", model.weight.device, accelerator.scaler.is_enabled())
    """,
    "lightning": """
        import lightning
        import torch
        class Model(lightning.LightningModule):
            def __init__(self):
                super().__init__()
                self.net = torch.nn.Linear(2, 2)
            def training_step(self, batch, index):
                return self.net(batch).square().sum()
            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), lr=0.1)
            def on_train_end(self):
                print("on", self.net.weight.device)
        trainer = lightning.Trainer(
            max_epochs=1, logger=False, enable_checkpointing=False, precision="16-mixed"
        )
        trainer.fit(Model(), torch.utils.data.DataLoader(torch.ones(4, 2)))
    """,
    "peft": """
        from peft.utils import infer_device
        print("on", infer_device())
    """,
    "trl": """
        import trl
        from trl import SFTConfig
        print("on", SFTConfig(FOLDER).device)
    """,
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_takes_acc(tmp_path, name):
    library = name.split()[0]
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"no {library} in this environment")
    code = textwrap.dedent(SCRIPTS[name]).replace("FOLDER", repr(str(tmp_path)))
    result = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    assert "on acc" in result.stdout
    assert not re.search("torchacc (does|could|cannot)", result.stderr), result.stderr


SEVERAL = """
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=32, hidden_size=16, intermediate_size=16, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=2,
    )
    data = [{"input_ids": [i, i + 1, i + 2], "labels": [i, i + 1, i + 2]} for i in range(16)]
    args = TrainingArguments(
        FOLDER, max_steps=3, report_to=[], logging_steps=1, save_strategy="no", use_cpu=CPU,
        per_device_train_batch_size=2, disable_tqdm=True, ddp_find_unused_parameters=False,
    )
    trainer = Trainer(LlamaForCausalLM(config), args, train_dataset=data)
    trainer.train()
    losses = [float(one["loss"]) for one in trainer.state.log_history if "loss" in one]
    if args.process_index == 0:
        print("made", [str(args.device), args.world_size, losses])
"""


def test_processes_of_torchrun_train_together(tmp_path):
    made = {}
    for cpu in (True, False):
        script = tmp_path / f"{cpu}.py"
        text = SEVERAL.replace("FOLDER", repr(str(tmp_path))).replace("CPU", str(cpu))
        script.write_text(textwrap.dedent(text))
        made[cpu] = ast.literal_eval(made_by(script))
    assert made[True][:2] in (["cpu", 2], ["cpu:0", 2])
    assert made[False][:2] in (["acc", 2], ["acc:0", 2])
    assert made[False][2] == pytest.approx(made[True][2], rel=1e-4)
