"""All programs by name."""

import huggingface
import timm_models
import torch_examples

PROGRAMS = huggingface.PROGRAMS | timm_models.PROGRAMS | torch_examples.PROGRAMS
