"""`torch.compile` on acc: what Dynamo captures is run on the lazy device, which compiles it.

The device records whatever runs, finds the program of a step that comes again and fuses across what
was captured and what was not, so nothing is left for a second compiler to do. The backend
"torchacc" runs a captured graph as it stands: gradients, mutations, views and random numbers are
those of the same program without `torch.compile`, and no graph break ends a trace. It is also what
the default backend, "inductor", does with graphs that have a tensor on acc: Inductor writes kernels
for a list of devices. Graphs of other devices go to Inductor as ever.

Like an adapter (`torchacc.adapters`) this replaces single functions of PyTorch when the module that
has them is imported. `import torch` imports none of these modules, and neither does this file.
"""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch._C import DispatchKey, DispatchKeySet
from torch._ops import HigherOrderOperator
from torch.amp.autocast_mode import _cast
from torch.utils._python_dispatch import _get_current_dispatch_mode
from torch.utils._pytree import tree_any_only
from torch.utils.checkpoint import checkpoint

from torchacc import _compiler, device
from torchacc.adapters import mend
from torchacc.step import cut, end_step, sync
from torchacc.streams import synchronize

# Functions of this package that a captured graph calls each time it runs.
_IN_GRAPHS = (cut, end_step, sync, synchronize, device.set_device)

# Higher-order operators that trace their graphs for gradients, at every call.
_TRACING = (
    "associative_scan",
    "cond",
    "flex_attention",
    "invoke_subgraph",
    "map_impl",
    "scan",
    "while_loop",
)


def compile_graph(graph: torch.fx.GraphModule, example_inputs: list, **settings: Any) -> Callable:
    """The backend "torchacc": what runs `graph`, whatever `mode` and `options` are."""
    for node in _nodes(graph):
        if node.target is torch.ops.higher_order.tag_activation_checkpoint:
            node.target = _checkpoint
            node.graph.owning_module.recompile()
    return graph.forward


def _nodes(graph: torch.fx.GraphModule):
    """Those of `graph` and of the graphs that its operators call."""
    for module in graph.modules():
        if isinstance(module, torch.fx.GraphModule):
            yield from module.graph.nodes


def _checkpoint(graph, *arguments, **settings):
    """Activation checkpointing as without `torch.compile`.

    The operator that Dynamo captures leaves it to AOTAutograd to compute `graph` again, and to
    Inductor to draw the same random numbers then.
    """
    settings["use_reentrant"] = False
    if "_checkpoint_context_fn" in graph.meta:
        settings["context_fn"] = graph.meta["_checkpoint_context_fn"]
    return checkpoint(graph.forward, *arguments, **settings)


def _is_ours(target) -> bool:
    """Whether what a node calls is of the device, though it is given no tensor: a step's cut."""
    return target in (*_IN_GRAPHS, torch.accelerator.synchronize)


def _is_on_acc(value) -> bool:
    placed = (torch.Tensor, torch.Stream, torch.Event)
    return tree_any_only(placed, lambda thing: thing.device.type == "acc", value)


def _uses_acc(graph, example_inputs) -> bool:
    """Whether a tensor of the graph is on acc, also one that it makes or only moves there."""
    return _is_on_acc(list(example_inputs)) or any(
        _is_ours(node.target) or _is_on_acc(node.meta.get("example_value", node.meta.get("val")))
        for node in _nodes(graph)
    )


def _inductor(module):
    def compile_fx(original):
        @functools.wraps(original)
        def compile(model_, example_inputs_, *args, **kwargs):
            if not _uses_acc(model_, example_inputs_):
                return original(model_, example_inputs_, *args, **kwargs)
            if module.V.aot_compilation:
                raise NotImplementedError(
                    "AOTInductor cannot compile for acc: the machine code of its packages is "
                    "Inductor's. Save the program with torch.export.save, and run what "
                    "torch.export.load(...).module() gives: acc keeps compiled programs on disk"
                )
            return compile_graph(model_, example_inputs_)

        return compile

    mend(module, "compile_fx", compile_fx, "torch.compile on acc needs backend='torchacc'")


def _dynamo(module):
    _compiler.is_imported()
    # PyTorch may have found this package's entry point already.
    if "torchacc" not in module.backends.registry._BACKENDS:
        module.register_backend(compile_graph, name="torchacc")
    for function in _IN_GRAPHS:
        module.allow_in_graph(function)
        torch.fx.node.has_side_effect(function)
    for function in (device.device_count, device.is_available):
        module.assume_constant_result(function)
    # The other operators read or change the device's state, which must not happen while tracing:
    # they break the graph.
    for name in torch._C._dispatch_get_all_op_names():
        if name.startswith("acc::") and name != "acc::get_device":
            module.disallow_in_graph(getattr(torch.ops.acc, name.removeprefix("acc::")))
    # Gives higher-order operators their behaviour under the autocast of PyTorch's own devices.
    key = DispatchKey.AutocastPrivateUse1
    torch._ops._HIGHER_ORDER_OP_DEFAULT_FALLTHROUGH_DISPATCH_KEYS.append(key)
    for operator in torch._ops._higher_order_ops.values():
        if key not in operator.py_kernels:
            operator.fallthrough(key)
    for name in _TRACING:
        _run_without_tracing(torch._ops._higher_order_ops[name])
    # A constant of captured code, which is captured again if another device is current.
    known = torch.ops.acc.get_device
    module.variables.torch.constant_fold_functions[known] = None
    module.variables.torch.constant_fold_functions_need_guards[known] = None


def _run_without_tracing(operator: HigherOrderOperator) -> None:
    """Has `operator` take its gradients on acc from the operators that it is made of.

    Under modes, fake tensors' among them, it does what it does on other devices.
    """
    kernel = operator.py_kernels[DispatchKey.CompositeExplicitAutograd]
    others = operator.py_kernels[DispatchKey.Autograd]

    @operator.py_impl(DispatchKey.AutogradPrivateUse1)
    def run(*arguments, **named):
        return (others if _get_current_dispatch_mode() else kernel)(*arguments, **named)


def _flex_attention(module):
    operator = module.flex_attention_hop
    key = DispatchKey.AutocastPrivateUse1

    @operator.py_impl(key)
    def autocast(query, key_, value, *others):
        dtype = torch.get_autocast_dtype("acc")
        tensors = [_cast(tensor, "acc", dtype) for tensor in (query, key_, value)]
        with torch._C._ExcludeDispatchKeyGuard(DispatchKeySet(key)):
            return operator(*tensors, *others)

    def _validate_device(original):
        @functools.wraps(original)
        def validate(query, key, value):
            if query.device.type != "acc":
                original(query, key, value)

        return validate

    mend(module, "_validate_device", _validate_device, "flex_attention refuses acc")


MENDS = {
    "torch._dynamo": _dynamo,
    "torch._inductor.compile_fx": _inductor,
    "torch.nn.attention.flex_attention": _flex_attention,
}
