"""Modules and optimizers, beside what test_modules.py and test_optim_table.py have."""

import copy
from functools import partial

import torch
from support import DEVICE
from test_modules import calls, is_float, leaves, run
from test_optim_table import bound_of, on_cpu, train, variants
from torch.testing._internal.common_modules import ModuleErrorEnum
from torch.testing._internal.common_optimizers import OptimizerErrorEnum
from torch.utils._pytree import tree_leaves, tree_map

from .compare import Differs, check
from .forms import same_refusal
from .values import gradients_of, is_differentiable, strided

# Drawn numbers differ between devices.
DRAWS = ("FractionalMaxPool2d", "FractionalMaxPool3d", "RReLU")


def each_call(info, training, dtype, prepare=lambda leaf: leaf, again=False):
    """Outputs, gradients and buffers of every call of the row."""
    taken = 0
    for module, arguments in calls(info, training):
        module, arguments = module.to(dtype), tree_map(prepare, leaves(arguments, dtype))

        def made(positional, keywords, module=module):
            given = tree_leaves((positional, keywords))
            placed = placed_as(copy.deepcopy(module), given)
            if not again:
                return run(placed, (positional, keywords))
            inputs = [leaf for leaf in given if is_differentiable(leaf)]
            inputs += [p for p in placed.parameters() if p.requires_grad]
            outputs = placed(*positional, **keywords)
            first = gradients_of(outputs, inputs, again=True)
            return outputs, first, gradients_of(first, inputs)

        taken += check(made, arguments, values=not info.name.endswith(DRAWS))
    return taken


def placed_as(module, given):
    """The module where its operands are, and of their type."""
    tensors = [leaf for leaf in given if is_tensor(leaf)]
    floats = [leaf.dtype for leaf in tensors if is_float(leaf)]
    return module.to(tensors[0].device, *floats[:1]) if tensors else module


def is_tensor(leaf):
    return isinstance(leaf, torch.Tensor)


def modes(info):
    return (True, False) if info.train_and_eval_differ else (True,)


def module_calls(info, dtype, **how):
    return sum(each_call(info, training, dtype, **how) for training in modes(info))


non_contiguous_modules = partial(module_calls, prepare=strided)
second_module_gradients = partial(module_calls, again=True)


def module_refusals(info, dtype):
    taken = 0
    for training in modes(info):
        how = {"device": "cpu", "dtype": dtype, "requires_grad": False, "training": training}
        for error in info.module_error_inputs_func(info, **how):
            given = error.module_error_input
            made, forward = given.constructor_input, given.forward_input
            fails_early = error.error_on == ModuleErrorEnum.CONSTRUCTION_ERROR

            def use(device, *arguments, made=made, early=fails_early, training=training):
                module = info.module_cls(*made.args, **made.kwargs)
                if early:
                    return None
                positional, keywords = arguments
                return module.to(device, dtype).train(training)(*positional, **keywords)

            call = ((), {}) if fails_early else (forward.args, forward.kwargs)
            taken += same_refusal(use, (torch.device("cpu"), *call), error.error_regex)
    return taken


def optimizer_calls(info, dtype):
    """Parameters and states after five steps, of every way to go through the parameters."""
    if dtype.is_complex and not info.supports_complex or info.only_supports_sparse_grads:
        return 0
    taken = 0
    for given, way in variants(info):
        try:
            expected = train(info, given, way, dtype, "cpu")
        except RuntimeError:
            continue
        found = train(info, given, way, dtype, DEVICE)
        count = 1 if info.step_requires_closure else 2
        bound = bound_of(info)
        for actual, wanted in zip(found[:count], expected[:count], strict=True):
            try:
                torch.testing.assert_close(on_cpu(actual), on_cpu(wanted), rtol=bound, atol=bound)
            except AssertionError as error:
                raise Differs(f"{given.desc} {way}: {error}") from None
        taken += 1
    return taken


def optimizer_refusals(info, dtype):
    taken = 0
    for error in info.optim_error_inputs_func(device="cpu", dtype=dtype):
        given = error.optimizer_error_input

        def use(device, params, kwargs, error=error):
            if params is None:
                params = [torch.randn(2, 3, device=device, dtype=dtype, requires_grad=True)]
            optimizer = info.optim_cls(params, **kwargs)
            if error.error_on == OptimizerErrorEnum.STEP_ERROR:
                optimizer.step()

        arguments = (torch.device("cpu"), given.params, given.kwargs)
        taken += same_refusal(use, arguments, error.error_regex)
    return taken
