"""The models that are compared, one file each: modules from a batch (`works.py`) to its loss."""

from models.bert import Bert
from models.gpt import Gpt
from models.llama import Llama
from models.lstm import Lstm
from models.mlp import Mlp
from models.resnet import ResNet
from models.vit import Vit

MODELS = {
    "gpt": Gpt,
    "llama": Llama,
    "bert": Bert,
    "vit": Vit,
    "resnet18": ResNet,
    "mlp": Mlp,
    "lstm": Lstm,
    "gpt2": Gpt,
    "gpt2-xl": Gpt,
    "llama-1b": Llama,
    "vit-l": Vit,
    "resnet50": ResNet,
}
