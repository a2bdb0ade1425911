"""The module of peers.py, for Zerofleet's workers."""

import os

import zerofleet as zf
from peers import Samples, build, loss_of

task = zf.Task(build, Samples("tokens.bin", int(os.environ["ZF_PEERS_CONTEXT"])), loss_of, weights="model",
               units=["LlamaDecoderLayer"])
