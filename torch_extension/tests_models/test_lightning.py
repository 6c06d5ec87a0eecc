"""Lightning's Trainer and Fabric."""

import lightning
import pytest
import torch
import torchacc
from lightning.fabric import Fabric
from lightning.pytorch.callbacks import DeviceStatsMonitor
from torch import nn


class Classifier(lightning.LightningModule):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Dropout(dropout), nn.Linear(32, 4))
        self.losses, self.compiles, self.dtypes = [], [], set()

    def training_step(self, batch, index):
        x, y = batch
        logits = self.net(x)
        self.dtypes.add(logits.dtype)
        loss = nn.functional.cross_entropy(logits, y)
        self.log("loss", loss)
        return loss

    def on_train_batch_end(self, outputs, batch, index):
        self.losses.append(outputs["loss"].item())
        self.compiles.append(torchacc.metrics()["compiles"])

    def validation_step(self, batch, index):
        x, y = batch
        self.log("accuracy", (self.net(x).argmax(1) == y).float().mean())

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


def loader():
    x = torch.randn(64, 8, generator=torch.Generator().manual_seed(1))
    data = torch.utils.data.TensorDataset(x, x[:, :4].argmax(1))
    return torch.utils.data.DataLoader(data, batch_size=16)


def fit(folder, accelerator, resume=None, dropout=0.0, epochs=3, **arguments):
    lightning.seed_everything(0, verbose=False)
    model = Classifier(dropout)
    defaults = {"logger": False, "enable_checkpointing": False, "num_sanity_val_steps": 1}
    trainer = lightning.Trainer(
        accelerator=accelerator,
        max_epochs=epochs,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
        **(defaults | arguments),
    )
    trainer.fit(model, loader(), loader(), ckpt_path=resume)
    return trainer, model


@pytest.mark.parametrize("accelerator", ["auto", "acc"])
def test_the_device_is_acc_and_losses_are_the_cpus(tmp_path, accelerator):
    trainer, model = fit(tmp_path, accelerator, gradient_clip_val=1.0)
    assert trainer.strategy.root_device == torch.device("acc", 0)
    assert type(trainer.accelerator).__name__ == "AccAccelerator"
    # The first epoch of four steps ends with the validation.
    assert model.compiles[2] == model.compiles[3]
    assert model.compiles[4] == model.compiles[-1]
    on_cpu, expected = fit(tmp_path, "cpu", gradient_clip_val=1.0)
    assert on_cpu.strategy.root_device.type == "cpu"
    assert model.losses == pytest.approx(expected.losses, abs=1e-4)
    metrics = [run.callback_metrics["accuracy"].item() for run in (trainer, on_cpu)]
    assert metrics[0] == metrics[1]


@pytest.mark.parametrize("precision", ["bf16-mixed", "16-mixed", "bf16-true"])
def test_precision(tmp_path, precision):
    trainer, model = fit(tmp_path, "auto", precision=precision, epochs=6)
    assert trainer.strategy.root_device.type == "acc"
    assert model.dtypes == {torch.float16 if precision == "16-mixed" else torch.bfloat16}
    scaler = getattr(trainer.precision_plugin, "scaler", None)
    assert (scaler is not None and scaler.is_enabled()) == (precision == "16-mixed")
    assert model.losses[-1] < model.losses[0]


@pytest.mark.parametrize("precision", ["32-true", "16-mixed"])
def test_a_checkpoint_is_loaded(tmp_path, precision):
    arguments = {"enable_checkpointing": True, "precision": precision}
    trainer, model = fit(tmp_path, "auto", epochs=2, **arguments)
    file = tmp_path / "last.ckpt"
    trainer.save_checkpoint(file)
    whole, expected = fit(tmp_path, "auto", epochs=4, **arguments)
    again, actual = fit(tmp_path, "auto", resume=file, epochs=4, **arguments)
    assert actual.losses == expected.losses[8:]


def test_devices_and_statistics(tmp_path):
    for devices in (1, "1", [0], -1, "auto"):
        assert fit(tmp_path, "acc", devices=devices, epochs=1)[0].num_devices == 1
    with pytest.raises(ValueError, match="there are 1 acc devices"):
        lightning.Trainer(accelerator="acc", devices=2)
    stats = fit(tmp_path, "acc", callbacks=[DeviceStatsMonitor()], logger=True, epochs=1)[0]
    assert stats.strategy.root_device.type == "acc"


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed", "16-mixed"])
def test_fabric(precision):
    lightning.seed_everything(0, verbose=False)
    fabric = Fabric(precision=precision)
    fabric.launch()
    assert fabric.device == torch.device("acc", 0)
    model = Classifier().net
    model, optimizer = fabric.setup(model, torch.optim.AdamW(model.parameters(), lr=1e-2))
    losses = []
    for _ in range(3):
        for x, y in fabric.setup_dataloaders(loader()):
            loss = nn.functional.cross_entropy(model(x), y)
            fabric.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
    assert losses[-1] < losses[0]
