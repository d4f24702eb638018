"""Times training steps of a GPT in PyTorch: torch_step.py JOB-AS-JSON THREADS WARM-UP STEPS

Written as one would write it for speed: one projection for q, k and v, gradients set to none.
Prints one JSON object: the seconds of each step after the warm-up, and the last loss.
"""
import json
import math
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


def drop(x, p):
    return F.dropout(x, p) if p else x


class Block(nn.Module):
    def __init__(self, d, heads, p):
        super().__init__()
        self.heads, self.p = heads, p
        self.ln_1, self.ln_2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.fc, self.out = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x, mask):
        b, t, d = x.shape
        q, k, v = (p.view(b, t, self.heads, -1).transpose(1, 2) for p in self.qkv(self.ln_1(x)).split(d, dim=2))
        a = F.softmax(q @ k.transpose(-2, -1) * (1 / math.sqrt(d // self.heads)) + mask, dim=-1)
        x = x + drop(self.proj((a @ v).transpose(1, 2).reshape(b, t, d)), self.p)
        return x + drop(self.out(F.gelu(self.fc(self.ln_2(x)))), self.p)


class Gpt(nn.Module):
    def __init__(self, m):
        super().__init__()
        d, t = m["hidden"], m["sequence"]
        self.wte, self.wpe = nn.Embedding(m["vocab"], d), nn.Embedding(t, d)
        self.p = m.get("dropout", 0.0)
        self.h = nn.ModuleList(Block(d, m["heads"], self.p) for _ in range(m["layers"]))
        self.ln_f = nn.LayerNorm(d)
        self.head = None if m.get("tied_head", False) else nn.Linear(d, m["vocab"], bias=False)
        self.register_buffer("mask", torch.full((t, t), float("-inf")).triu(1))
        self.register_buffer("pos", torch.arange(t))

    def forward(self, ids):
        x = drop(self.wte(ids) + self.wpe(self.pos), self.p)
        for block in self.h:
            x = block(x, self.mask)
        return F.linear(self.ln_f(x), self.wte.weight if self.head is None else self.head.weight)


def begin(m):
    """Sets GPT-2's first weights. The weights of nn.Embedding give loss 144, and soon gradients so
    small that every product takes several times as long."""
    if isinstance(m, (nn.Linear, nn.Embedding)):
        nn.init.normal_(m.weight, std=0.02)
    if isinstance(m, nn.Linear) and m.bias is not None:
        nn.init.zeros_(m.bias)


def optimizer(net, o):
    decay = o.get("weight_decay", 0.0)
    if o["name"] == "sgd":
        return torch.optim.SGD(net.parameters(), lr=o["lr"], momentum=o.get("momentum", 0.9), weight_decay=decay)
    return torch.optim.AdamW(net.parameters(), lr=o["lr"], betas=o.get("betas", (0.9, 0.999)), weight_decay=decay)


def main():
    job = json.loads(sys.argv[1])
    m, train = job["model"], job["train"]
    batch, clip = train["global_batch"], train.get("clip_norm", 0.0)
    threads, warm_up, steps = (int(a) for a in sys.argv[2:5])
    torch.set_default_dtype(torch.float64 if train["dtype"] == "fp64" else torch.float32)
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    net = Gpt(m)
    net.apply(begin)
    opt = optimizer(net, train["optimizer"])
    ids = torch.randint(0, min(256, m["vocab"]), (batch, m["sequence"] + 1))  # text is bytes
    seconds = []
    for _ in range(warm_up + steps):
        t = time.perf_counter()
        opt.zero_grad(set_to_none=True)
        loss = F.cross_entropy(net(ids[:, :-1]).view(-1, m["vocab"]), ids[:, 1:].reshape(-1))
        loss.backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(net.parameters(), clip)
        opt.step()
        seconds.append(time.perf_counter() - t)
    print(json.dumps({"seconds": seconds[warm_up:], "loss": loss.item()}))


main()
