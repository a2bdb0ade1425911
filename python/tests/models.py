"""Small modules for the tests, each in a zerofleet.Task that `model.torch: models:NAME` names."""

import dataclasses
import multiprocessing
import os
import time

import torch
from torch import nn
from torch.nn import functional as F

import zerofleet as zf

VOCAB, CONTEXT = 61, 12


class Tokens:
    """Fixed random sequences."""

    def __init__(self, count, seed=3):
        self.values = torch.randint(0, VOCAB, (count, CONTEXT), generator=torch.Generator().manual_seed(seed))

    def __len__(self):
        return len(self.values)

    def __getitem__(self, index):
        ids = self.values[index]
        labels = ids.clone()
        labels[: index % 3] = -100  # so that micro-batches differ in weight
        return {"input_ids": ids, "labels": labels}


class Noisy(Tokens):
    """Sequences in which a random token is replaced. Loader processes write their ids to the folder ZF_TEST_READERS."""

    def __getitem__(self, index):
        folder = os.environ.get("ZF_TEST_READERS")
        if folder and multiprocessing.parent_process() is not None:
            open(os.path.join(folder, str(os.getpid())), "w").close()
        sample = super().__getitem__(index)
        ids = sample["input_ids"].clone()
        ids[int(torch.randint(CONTEXT, ()))] = int(torch.randint(VOCAB, ()))
        return {**sample, "input_ids": ids}


class Numbers:
    """Many small samples."""

    def __len__(self):
        return 1000000

    def __getitem__(self, index):
        return index


def stack_numbers(samples):
    return torch.tensor(samples).unsqueeze(1).expand(-1, 8).clone()


class Images:
    """Fixed random images and classes."""

    def __init__(self, count, seed=4):
        generator = torch.Generator().manual_seed(seed)
        self.images = torch.randn(count, 3, 8, 8, generator=generator)
        self.classes = torch.randint(0, 5, (count,), generator=generator)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return self.images[index], self.classes[index]


def causal_loss(model, batch):
    """The sum over tokens and their number, as transformers computes the mean."""
    count = (batch["labels"][:, 1:] != -100).sum()
    return model(**batch).loss * count, count


def seq2seq_loss(model, batch):
    count = (batch["labels"] != -100).sum()
    return model(input_ids=batch["input_ids"], labels=batch["labels"]).loss * count, count


def class_loss(model, batch):
    images, classes = batch
    return F.cross_entropy(model(images).float(), classes, reduction="sum"), len(classes)


def build_llama():
    import transformers as tf

    return tf.LlamaForCausalLM(tf.LlamaConfig(
        vocab_size=VOCAB, hidden_size=24, intermediate_size=40, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=32, attn_implementation="eager"))


def build_llama_checkpointed():
    model = build_llama()
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return model


def build_qwen2():
    import transformers as tf

    return tf.Qwen2ForCausalLM(tf.Qwen2Config(
        vocab_size=VOCAB, hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=32, tie_word_embeddings=True, attn_implementation="eager"))


def build_gpt2():
    import transformers as tf

    return tf.GPT2LMHeadModel(tf.GPT2Config(
        vocab_size=VOCAB, n_positions=32, n_embd=24, n_layer=3, n_head=4, resid_pdrop=0.1, embd_pdrop=0.1,
        attn_pdrop=0.1, attn_implementation="eager"))


def build_t5():
    import transformers as tf

    return tf.T5ForConditionalGeneration(tf.T5Config(
        vocab_size=VOCAB, d_model=24, d_kv=6, d_ff=40, num_layers=2, num_decoder_layers=2, num_heads=4,
        dropout_rate=0.0, decoder_start_token_id=0, pad_token_id=0))


class ConvNet(nn.Module):
    """Convolutions of different sizes, and a layer that is not used."""

    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(2, 8))
        self.second = nn.Conv2d(8, 16, 3, padding=1, stride=2)
        self.spare = nn.Linear(16, 16)
        self.last = nn.Linear(16, 5)

    def forward(self, x):
        x = F.relu(self.second(F.relu(self.first(x))))
        return self.last(x.mean(dim=(2, 3)))


class Branches(nn.Module):
    """Blocks, one of which every micro-batch skips; which one depends on the data."""

    def __init__(self, width=16, blocks=4):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, width)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
                                    for _ in range(blocks))
        self.head = nn.Linear(width, VOCAB)

    def forward(self, ids):
        x = self.embed(ids)
        skipped = -1 if isinstance(ids, torch._subclasses.FakeTensor) else int(ids.sum()) % 4
        for i, block in enumerate(self.blocks):
            if i != skipped:
                x = x + block(x)
        return self.head(x)


def build_large():
    return Branches(128, 12)


def branches_loss(model, batch):
    ids = batch["input_ids"]
    logits = model(ids[:, :-1]).float()
    return F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="sum"), ids[:, 1:].numel()


class Dropped(nn.Module):
    """PyTorch's own Transformer layers, with dropout."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, 16)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
                                    for _ in range(3))
        self.head = nn.Linear(16, VOCAB)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


class Stop(torch.autograd.Function):
    """Does nothing, except that a backward pass in the fifth step writes the process's id to ZF_TEST_MARK, and waits to be
    killed."""

    passes = 0

    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        mark = os.environ.get("ZF_TEST_MARK")
        Stop.passes += 1
        if mark and Stop.passes == 14:  # in the fifth step; a step has three micro-batches
            try:
                with open(mark, "x") as file:
                    file.write(f"{os.getpid()}\n")
                time.sleep(100)
            except FileExistsError:
                pass
        return grad


class Slow(Branches):
    """Branches that can be stopped in the middle of a backward pass."""

    def forward(self, ids):
        x = self.embed(ids)
        for i, block in enumerate(self.blocks):
            x = x + block(x)
            if i == 1:
                x = Stop.apply(x)
        return self.head(x)


class Listed(nn.Module):
    """Layers that are lists of modules, which are called themselves."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, 16)
        self.layers = nn.ModuleList(nn.ModuleList([nn.Linear(16, 16), nn.Sequential(nn.Linear(16, 32), nn.Linear(32, 16))])
                                    for _ in range(3))
        self.head = nn.Linear(16, VOCAB)

    def forward(self, ids):
        x = self.embed(ids)
        for first, second in self.layers:
            x = x + second(torch.tanh(first(x)))
        return self.head(x)


class Product(nn.Module):
    """A product with a parameter that it is given."""

    def __init__(self, weight):
        super().__init__()
        self.weight = weight

    def forward(self, x):
        return x @ self.weight


class Shared(nn.Module):
    """Two modules that have been given one parameter."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, 16)
        weight = nn.Parameter(torch.randn(16, 16))
        self.blocks = nn.ModuleList([Product(weight), Product(weight)])
        self.head = nn.Linear(16, VOCAB)

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = torch.tanh(block(x))
        return self.head(x)


@dataclasses.dataclass
class Values:
    x: torch.Tensor


class Wrapping(nn.Module):
    """A product whose input and output are in an object."""

    def __init__(self):
        super().__init__()
        self.product = nn.Linear(16, 16)
        self.norm = nn.LayerNorm(16)

    def forward(self, values):
        return Values(self.norm(self.product(values.x)))


class Wrapped(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, 16)
        self.blocks = nn.ModuleList(Wrapping() for _ in range(3))
        self.head = nn.Linear(16, VOCAB)

    def forward(self, ids):
        values = Values(self.embed(ids))
        for block in self.blocks:
            values = block(values)
        return self.head(values.x)


class Around(nn.Module):
    """A trained module, and behind it a frozen product and a trained bias, whose gradient comes first."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, 16)
        self.embed.weight.requires_grad = False
        self.within = nn.Linear(16, 16)
        self.frozen = nn.Parameter(torch.randn(16, 16), requires_grad=False)
        self.bias = nn.Parameter(torch.zeros(16))

    def forward(self, ids):
        return torch.tanh(self.within(self.embed(ids)) @ self.frozen) + self.bias


def build_around():
    return nn.Sequential(Around(), nn.Linear(16, VOCAB))


def build_normed():
    """A batch norm whose running statistics do not change."""
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(144, 5))
    model[1].eval()
    return model


def build_batch_normed():
    """Without a bias before the norm, whose gradient is rounding errors alone."""
    return nn.Sequential(nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 5))


class Codebook(nn.Module):
    """Buffers of several types that a training pass changes: an average of the inputs, which the loss depends on, and notes of the
    passes; one of them is registered twice, one is not stored, one is replaced and not written to."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(192, 16)
        self.last = nn.Linear(16, 5)
        self.register_buffer("seen", torch.zeros((), dtype=torch.int16))
        self.register_buffer("average", torch.zeros(16, dtype=torch.float64))
        self.register_buffer("begun", torch.zeros(3, dtype=torch.bool), persistent=False)
        self.register_buffer("replaced", torch.zeros(2, 2))
        self.register_buffer("constant", torch.ones(16))
        self.again = nn.Module()
        self.again.register_buffer("average", self.average)

    def forward(self, images):
        x = torch.tanh(self.inner(images.flatten(1)))
        if self.training:
            with torch.no_grad():
                self.seen += 1
                self.average.lerp_(x.detach().double().mean(0), 0.25)
                self.begun[1] = True
                self.replaced = self.replaced + 0.5
        return self.last(x - self.average.to(x.dtype) * self.constant.to(x.dtype))


class Remembering(nn.Linear):
    """Leaves its weight in the place of a buffer."""

    def __init__(self):
        super().__init__(192, 5)
        self.register_buffer("last", torch.zeros(5, 192))

    def forward(self, images):
        self.last = self.weight.detach()
        return super().forward(images.flatten(1))


def build_lora():
    import peft

    return peft.get_peft_model(build_llama(), peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"]))


llama_from_folder = zf.Task(build_llama, Tokens(40), causal_loss, weights=os.environ.get("ZF_TEST_WEIGHTS"))
dropped = zf.Task(Dropped, Tokens(40), branches_loss)
noisy = zf.Task(Dropped, Noisy(40), branches_loss)
noisy_ahead = zf.Task(Dropped, Noisy(40), branches_loss, loader_workers=2)
slow = zf.Task(Slow, Tokens(40), branches_loss)
lora_from_folder = zf.Task(build_lora, Tokens(40), causal_loss, weights=os.environ.get("ZF_TEST_WEIGHTS"))
lora = zf.Task(build_lora, Tokens(40), causal_loss, units=["LlamaDecoderLayer"])
llama = zf.Task(build_llama, Tokens(40), causal_loss, validation=Tokens(10, 5), units=["LlamaDecoderLayer"])
llama_checkpointed = zf.Task(build_llama_checkpointed, Tokens(40), causal_loss, units=["LlamaDecoderLayer"])
qwen2 = zf.Task(build_qwen2, Tokens(40), causal_loss, units=["Qwen2DecoderLayer", "model.embed_tokens"])
gpt2 = zf.Task(build_gpt2, Tokens(40), causal_loss)
t5 = zf.Task(build_t5, Tokens(40), seq2seq_loss, units=["T5Block"])
cnn = zf.Task(ConvNet, Images(40), class_loss, units=["first", "second", "spare", "last"])
normed = zf.Task(build_normed, Images(40), class_loss)
batch_normed = zf.Task(build_batch_normed, Images(40), class_loss, validation=Images(10, 5), buffers="rank0")
batch_normed_from_folder = zf.Task(build_batch_normed, Images(40), class_loss, buffers="rank0",
                                   weights=os.environ.get("ZF_TEST_WEIGHTS"))
remembering = zf.Task(Remembering, Images(40), class_loss, buffers="rank0")
codebook = zf.Task(Codebook, Images(40), class_loss, units=["inner", "last"], buffers="rank0")
large = zf.Task(build_large, Tokens(40), branches_loss)
branches = zf.Task(Branches, Tokens(40), branches_loss)
numbers = zf.Task(Dropped, Numbers(), branches_loss, collate=stack_numbers)
listed = zf.Task(Listed, Tokens(40), branches_loss)
shared = zf.Task(Shared, Tokens(40), branches_loss)
wrapped = zf.Task(Wrapped, Tokens(40), branches_loss)
around = zf.Task(build_around, Tokens(40), branches_loss, units=["0", "0.within"])
UNUSUAL = ("listed", "shared", "wrapped", "around")
ALL = ("llama", "llama_checkpointed", "qwen2", "gpt2", "t5", "cnn", "branches")
