"""All programs by name."""

import huggingface

PROGRAMS = huggingface.PROGRAMS
