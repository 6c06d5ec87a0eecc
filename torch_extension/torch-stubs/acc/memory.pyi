from torchacc.memory import *
