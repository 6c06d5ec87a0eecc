"""What `accelerate` puts on a model: a file for each kind of parallelism.

`tensor`: parts of layers; `sequence`: parts of sequences; `pipeline`, `stage` and `division`: some
of the layers; `sharded`: parts of all parameters; `recompute`: activations that are not kept;
`deferred`: models that are made in parts; `clip`: gradients by the norm of all of them; `modules`:
which modules are meant.
"""
