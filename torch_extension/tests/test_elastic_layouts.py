"""Trainings that lose a rank go on from memory in the layout that fits the ranks that are left."""

import json

import pytest
import ranks
import relaid

FSDP_TP = {"fsdp": 2, "tp": 2}
TP = {"tp": 2}
PP = {"pp": [2, 2]}
FSDP_PP = {"fsdp": 2, **PP}
PP_TP = {**TP, **PP}
NEVER = -1


def undisturbed():
    """Losses of one process, by step."""
    sampler, model, loader, optimizer = relaid.made({})
    made = {}
    for micro_batches in sampler.steps(loader):
        loss = relaid.stepped(model, optimizer, micro_batches)
        made[sampler.step] = loss
    return made


def lived(folder, layout, size, lost):
    """What the ranks did until one was killed, or until they had made the last step there is."""
    _, processes = ranks.start("relaid.train", size, folder, json.dumps(layout), lost)
    if lost != NEVER:
        # As torchrun does.
        processes[-1].wait(timeout=120)
        for process in processes:
            process.kill()
    written = [process.communicate(timeout=120)[0] for process in processes]
    assert lost != NEVER or not any(process.returncode for process in processes), written
    said = json.loads((folder / "0.json").read_text())
    return said.pop("begin"), {int(step): loss for step, loss in said.items()}


@pytest.mark.parametrize(
    "lives",
    [
        [(FSDP_TP, 4, 3), (FSDP_TP, 4, 5), (PP, 2, NEVER)],
        [(PP_TP, 4, 3), (TP, 2, 5), (FSDP_PP, 4, NEVER)],
    ],
)
def test_losses_are_those_of_one_process_in_every_layout(tmp_path, monkeypatch, lives):
    monkeypatch.setenv("TORCHACC_SNAPSHOTS", str(tmp_path))
    expected, before = undisturbed(), 0
    assert len(expected) == 8
    for layout, size, lost in lives:
        begin, losses = lived(tmp_path, layout, size, lost)
        # The last snapshot that all had.
        assert begin == before // relaid.SAVES * relaid.SAVES
        assert [*losses] == [*range(begin + 1, len(expected) + 1 if lost == NEVER else lost + 1)]
        assert losses == pytest.approx({step: expected[step] for step in losses}, rel=1e-4)
        before = lost
