"""Gives an independent program all that it needs to train the same model: tensors in files,
batches, and the models.

Files and batches need only the standard library; torch_model and its optimizers need PyTorch. The
rules are written again here, from their descriptions (proto/program/sheet.h,
daemon/graph/family_*.c), so that a mistake on one side shows.
"""
import array
import ctypes
import json
import math
import os

import tokens
from report import BUILD

MASK = (1 << 64) - 1
CODE = {"F32": "f", "F64": "d"}


# ---- safetensors ---------------------------------------------------------------------------------

def load_tensors(path):
    """name -> (shape, array)"""
    with open(path, "rb") as f:
        n = int.from_bytes(f.read(8), "little")
        head = json.loads(f.read(n))
        data = f.read()
    out = {}
    for name, t in head.items():
        if name != "__metadata__":
            a = array.array(CODE[t["dtype"]])
            a.frombytes(data[t["data_offsets"][0]:t["data_offsets"][1]])
            out[name] = (list(t["shape"]), a)
    return out


def save_tensors(path, tensors):
    head, at = {}, 0
    for name, (shape, a) in tensors.items():
        size = len(a) * a.itemsize
        head[name] = {"dtype": "F64" if a.typecode == "d" else "F32", "shape": shape,
                      "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text)
        for _, a in tensors.values():
            f.write(a.tobytes())


# ---- which samples a step reads ------------------------------------------------------------------

def _xxh3(text):
    near = os.path.join(BUILD, "lib", "libxxhash.so.0")  # of a bundle: scripts/gpu-check
    lib = ctypes.CDLL(near if os.path.exists(near) else "libxxhash.so.0")
    lib.XXH3_64bits.restype = ctypes.c_uint64
    lib.XXH3_64bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    return lib.XXH3_64bits(text, len(text))


def _mix(x):
    x ^= x >> 30
    x = x * 0xbf58476d1ce4e5b9 & MASK
    x ^= x >> 27
    x = x * 0x94d049bb133111eb & MASK
    return x ^ x >> 31


def _philox(ctr, key):
    c, k = list(ctr), list(key)
    for i in range(10):
        if i:
            k = [(k[0] + 0x9E3779B9) & 0xffffffff, (k[1] + 0xBB67AE85) & 0xffffffff]
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [p1 >> 32 ^ c[1] ^ k[0], p1 & 0xffffffff, p0 >> 32 ^ c[3] ^ k[1], p0 & 0xffffffff]
    return c


class Window(list):
    """Tokens that follow each other; @at: where in the stream."""
    at = 0


class Batches:
    """The windows of every step of @job (tokens, next tokens), and those of a validation."""

    def __init__(self, job, path):
        """@path: the value of data.path of @job."""
        self.text, begins = tokens.read(job, path)
        self.batch, self.seq = job["train"]["global_batch"], job["model"]["sequence"]
        self.seed = job["train"].get("seed", 1)
        self.held = int(len(self.text) * job["data"].get("validation_fraction", 0.05))
        self.train_bytes = len(self.text) - self.held
        self.n_train, self.n_eval = (self.train_bytes - 1) // self.seq, (self.held - 1) // self.seq
        self.stream = _xxh3(b"shuffle")
        data = job["data"]
        self.apart = data.get("packing", "none") == "documents"
        self.first, self.last = data.get("document_start", -1), data.get("document_end", -1)
        self.begins = set(begins)

    def begin(self, i):
        """Whether a document begins with token @i."""
        return (i in self.begins or self.text[i] == self.first if self.first >= 0 else
                i in self.begins or (i > 0 and self.last >= 0 and self.text[i - 1] == self.last))

    def starts(self, window):
        """The column where the document of each token of a window begins; 0 throughout without
        packing."""
        out = [0] * len(window)
        for i in range(1, len(window)):
            out[i] = i if self.apart and self.begin(window.at + i) else out[i - 1]
        return out

    def sample(self, i):
        """Entry i of the endless sequence of permutations: a Feistel network with cycle walking."""
        key = _mix((self.seed + 0x9E3779B97F4A7C15) & MASK) ^ _mix(~self.stream & MASK)
        run = i // self.n_train
        w = _philox((run & 0xffffffff, run >> 32, 0, 0), (key & 0xffffffff, key >> 32))
        k, half = w[1] << 32 | w[0], 1
        while half < 32 and 1 << 2 * half < self.n_train:
            half += 1
        mask, x = (1 << half) - 1, i % self.n_train
        while True:
            left, right = x >> half, x & mask
            for r in range(8):
                left, right = right, left ^ _mix(k ^ _mix((right + (r << 40)) & MASK)) & mask
            x = left << half | right
            if x < self.n_train:
                return x

    def keys(self, step):
        """The random keys of each sequence of a step, from which dropout draws."""
        key = _mix((self.seed + 0x9E3779B97F4A7C15) & MASK) ^ _mix(~_xxh3(b"dropout") & MASK)
        out = []
        for k in range(self.batch):
            i = self.sample(step * self.batch + k)
            w = _philox((step & 0xffffffff, step >> 32, i & 0xffffffff, i >> 32), (key & 0xffffffff, key >> 32))
            out.append((w[0] & 0x7fffffff, w[1] & 0x7fffffff))
        return out

    def window(self, offset):
        w = Window(self.text[offset:offset + self.seq + 1])
        w.at = offset
        return w

    def train(self, step):
        return [self.window(self.sample(step * self.batch + k) * self.seq) for k in range(self.batch)]

    def validation(self):
        n = self.batch
        at = [k * self.n_eval // n if n <= self.n_eval else k % self.n_eval for k in range(n)]
        return [self.window(self.train_bytes + w * self.seq) for w in at]


def kept(name, key, positions, width, p):
    """Rows of 0 and 1: which elements of tensor @name dropout keeps in the sequence with random
    keys @key."""
    h, below = _xxh3(name.encode()), int(p * 2**32)
    return [[0.0 if w < below else 1.0
             for c in range((width + 3) // 4) for w in _philox((c, s) + key, (h & 0xffffffff, h >> 32))][:width]
            for s in range(positions)]


# ---- PyTorch -------------------------------------------------------------------------------------

def torch_model(spec):
    """A module whose state_dict has the names and shapes of model.safetensors."""
    import torch
    from torch import nn
    from torch.nn import functional as F
    hidden, vocab, seq = spec["hidden"], spec["vocab"], spec["sequence"]
    tied, p = spec.get("tied_head", False), spec.get("dropout", 0.0)
    keys = []  # of the sequences of the running step; empty: nothing is dropped
    starts = []  # one tensor (sequence, position): where the document of each position begins

    def positions(x):
        """Of each token in its document."""
        return torch.arange(x.shape[1]) - starts[0]

    def hidden_from(t):
        """(sequence, 1, query, key): keys that are later, or of another document."""
        at = torch.arange(t)
        return ((at[None, :] > at[:, None]) | (at[None, None, :] < starts[0][:, :, None]))[:, None]

    def drop(x, name):
        if not keys or not p:
            return x
        return x * torch.tensor([kept(name, k, x.shape[-2], x.shape[-1], p) for k in keys]).to(x.dtype) / (1 - p)

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.k, self.v = (nn.Linear(hidden, hidden) for _ in range(3))
            self.proj = nn.Linear(hidden, hidden)

        def forward(self, x):
            b, t, _ = x.shape
            q, k, v = (m(x).view(b, t, spec["heads"], -1).transpose(1, 2) for m in (self.q, self.k, self.v))
            score = q @ k.transpose(2, 3) / math.sqrt(hidden // spec["heads"])
            y = score.masked_fill(hidden_from(t), float("-inf")).softmax(-1) @ v
            return self.proj(y.transpose(1, 2).reshape(b, t, hidden))

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln_1, self.ln_2, self.attn = nn.LayerNorm(hidden), nn.LayerNorm(hidden), Attention()
            self.mlp = nn.ModuleDict({"fc": nn.Linear(hidden, 4 * hidden), "proj": nn.Linear(4 * hidden, hidden)})

        def forward(self, x, l):
            x = x + drop(self.attn(self.ln_1(x)), "h.%d.attn.drop" % l)
            return x + drop(self.mlp["proj"](F.gelu(self.mlp["fc"](self.ln_2(x)))), "h.%d.mlp.drop" % l)

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.wte, self.wpe = nn.Embedding(vocab, hidden), nn.Embedding(seq, hidden)
            self.h = nn.ModuleList(Block() for _ in range(spec["layers"]))
            self.ln_f = nn.LayerNorm(hidden)
            if not tied:
                self.lm_head = nn.Linear(hidden, vocab, bias=False)

        def forward(self, ids):
            x = drop(self.wte(ids) + self.wpe(positions(ids)), "embed.drop")
            for l, block in enumerate(self.h):
                x = block(x, l)
            x = self.ln_f(x)
            return F.linear(x, self.wte.weight) if tied else self.lm_head(x)

    class RmsNorm(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(hidden))

        def forward(self, x):
            return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + spec.get("rms_norm_eps", 1e-5)))

    def rotated(x):
        """Rotary positions as transformers' modeling_llama: rotate_half."""
        d = x.shape[-1]
        freq = spec.get("rope_theta", 10000.0) ** (-torch.arange(0, d, 2).to(x.dtype) / d)
        angle = positions(x[:, 0]).to(x.dtype)[:, :, None] * freq
        angle = torch.cat((angle, angle), -1)[:, None]
        half = torch.cat((-x[..., d // 2:], x[..., :d // 2]), -1)
        return x * angle.cos() + half * angle.sin()

    class GroupedAttention(nn.Module):
        def __init__(self):
            super().__init__()
            self.d, self.kv = hidden // spec["heads"], spec.get("kv_heads") or spec["heads"]
            self.q_proj, self.o_proj = (nn.Linear(hidden, hidden, bias=False) for _ in range(2))
            self.k_proj, self.v_proj = (nn.Linear(hidden, self.kv * self.d, bias=False) for _ in range(2))

        def forward(self, x):
            b, t, _ = x.shape
            q, k, v = (m(x).view(b, t, -1, self.d).transpose(1, 2) for m in (self.q_proj, self.k_proj, self.v_proj))
            group = spec["heads"] // self.kv
            q, k = rotated(q), rotated(k).repeat_interleave(group, 1)
            score = q @ k.transpose(2, 3) / math.sqrt(self.d)
            y = score.masked_fill(hidden_from(t), float("-inf")).softmax(-1) @ v.repeat_interleave(group, 1)
            return self.o_proj(y.transpose(1, 2).reshape(b, t, hidden))

    class LlamaBlock(nn.Module):
        def __init__(self):
            super().__init__()
            wide = spec.get("intermediate") or -(-(-(-8 * hidden // 3)) // 32) * 32
            self.input_layernorm, self.post_attention_layernorm = RmsNorm(), RmsNorm()
            self.self_attn = GroupedAttention()
            self.mlp = nn.ModuleDict({"gate_proj": nn.Linear(hidden, wide, bias=False),
                                      "up_proj": nn.Linear(hidden, wide, bias=False),
                                      "down_proj": nn.Linear(wide, hidden, bias=False)})

        def forward(self, x, at):
            x = x + drop(self.self_attn(self.input_layernorm(x)), at + ".self_attn.drop")
            y = self.post_attention_layernorm(x)
            y = self.mlp["down_proj"](F.silu(self.mlp["gate_proj"](y)) * self.mlp["up_proj"](y))
            return x + drop(y, at + ".mlp.drop")

    class Llama(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = nn.Module()
            self.model.embed_tokens = nn.Embedding(vocab, hidden)
            self.model.layers = nn.ModuleList(LlamaBlock() for _ in range(spec["layers"]))
            self.model.norm = RmsNorm()
            if not tied:
                self.lm_head = nn.Linear(hidden, vocab, bias=False)

        def forward(self, ids):
            x = drop(self.model.embed_tokens(ids), "model.embed_tokens.drop")
            for l, block in enumerate(self.model.layers):
                x = block(x, "model.layers.%d" % l)
            x = self.model.norm(x)
            return F.linear(x, self.model.embed_tokens.weight) if tied else self.lm_head(x)

    class TiedHead(nn.Module):
        def __init__(self):
            super().__init__()
            self.bias = nn.Parameter(torch.zeros(vocab))

    class Mlp(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(vocab, hidden)
            self.layers = nn.ModuleList(nn.Linear(seq * hidden if l == 0 else hidden, hidden)
                                        for l in range(spec["layers"]))
            self.head = TiedHead() if tied else nn.Linear(hidden, vocab)

        def forward(self, ids):
            x = self.embed(ids).flatten(1)
            for l, layer in enumerate(self.layers):
                x = drop(F.gelu(layer(x)).unsqueeze(1), "layers.%d.drop" % l).squeeze(1)
            return F.linear(x, self.embed.weight, self.head.bias) if tied else self.head(x)

    model = {"gpt": Gpt, "llama": Llama, "mlp": Mlp}[spec["family"]]()
    model.drop_keys, model.starts = keys, starts
    return model


def torch_state(tensors):
    import torch
    return {name: torch.frombuffer(bytearray(a.tobytes()), dtype=torch.float64 if a.typecode == "d" else torch.float32)
            .reshape(shape) for name, (shape, a) in tensors.items()}


def torch_loss(model, spec, windows, batches):
    """Mean loss in nats: gpt and llama predict every next byte of a window that is of the same
    document, mlp the last one of the window."""
    import torch
    from torch.nn import functional as F
    w = torch.tensor([list(x) for x in windows])
    starts = torch.tensor([batches.starts(x) for x in windows])
    model.starts[:] = [starts[:, :-1]]
    labels = w[:, 1:].masked_fill(starts[:, 1:] == torch.arange(1, w.shape[1]), -1)
    out = model(w[:, :-1])
    return F.cross_entropy(out.flatten(0, -2), (w[:, -1] if spec["family"] == "mlp" else labels).flatten(),
                           ignore_index=-1)


def learning_rate(train, step):
    s, lr = train.get("schedule", {}), train["optimizer"]["lr"]
    warm = s.get("warmup_steps", 0)
    if step < warm:
        return lr * (step + 1) / warm
    if s.get("name", "constant") == "constant":
        return lr
    part = (step - warm) / (train["steps"] - warm)
    low = s.get("min_lr", 0.0)
    return low + 0.5 * (lr - low) * (1 + math.cos(math.pi * part))


def torch_train(model, job, batches, steps):
    """Trains in place; the losses of the steps. Weight decay takes matrices only, vectors never."""
    import torch
    train, o = job["train"], job["train"]["optimizer"]
    groups = [{"params": [p for p in model.parameters() if p.dim() >= 2], "weight_decay": o.get("weight_decay", 0.0)},
              {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0}]
    if o["name"] == "adamw":
        opt = torch.optim.AdamW(groups, lr=o["lr"], betas=o.get("betas", (0.9, 0.999)), eps=o.get("eps", 1e-8))
    else:
        opt = torch.optim.SGD(groups, lr=o["lr"], momentum=o.get("momentum", 0.9))
    losses = []
    for t in range(steps):
        model.drop_keys[:] = batches.keys(t)
        loss = torch_loss(model, job["model"], batches.train(t), batches)
        model.drop_keys.clear()
        opt.zero_grad()
        loss.backward()
        losses.append(loss.item())
        norm = math.sqrt(sum(p.grad.pow(2).sum().item() for p in model.parameters()))
        clip = train.get("clip_norm", 0.0)
        for p in model.parameters():
            p.grad.mul_(min(1.0, clip / norm) if clip else 1.0)
        for g in opt.param_groups:
            g["lr"] = learning_rate(train, t)
        opt.step()
    return losses
