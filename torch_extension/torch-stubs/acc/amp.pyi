from torchacc.amp import *
