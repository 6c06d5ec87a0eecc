"""Pipelines whose programs are the same in every step. Of PyTorch 2.11 and 2.15."""

import functools

import torch

from torchacc import adapters


def _in_order(original):
    """With lists for sets. Schedules that compute gradients of inputs and of weights apart go over
    sets of autograd's nodes, whose order is that of their addresses: each step would sum and
    differentiate in another order, and be another program."""

    @functools.wraps(original)
    def get_param_groups(inputs, params, reverse_edges_dict):
        groups = original(inputs, params, reverse_edges_dict)
        place = {node: at for at, node in enumerate((*reverse_edges_dict, *params))}
        for group in groups:
            for kind in ("params", "intermediates"):
                group[kind] = sorted(group[kind], key=place.__getitem__)
        return groups

    return get_param_groups


def _by_the_caller(original):
    """On the thread that asks. Autograd's own, which the device has else, may hold gradients for a
    moment after they were given: what is still there at a cut is a result of the program."""

    @functools.wraps(original)
    def stage_backward(*args, **kwargs):
        with torch.autograd.set_multithreading_enabled(False):
            return original(*args, **kwargs)

    return stage_backward


def _mend(module) -> None:
    why = "zero-bubble pipelines compile in every step"
    adapters.mend(module, "get_param_groups", _in_order, why)
    for name in ("stage_backward_input", "stage_backward_weight"):
        adapters.mend(module, name, _by_the_caller, why)


MENDS = {"torch.distributed.pipelining._backward": _mend}
