from torchacc.streams import *
