from torchacc.random import *
