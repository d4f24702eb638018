"""PyTorch's side of the GPU claims: torch_gpu.py SPEC.json, written as one would write it for
speed.

One projection for q, k and v (and for gate and up), scaled_dot_product_attention, fused AdamW,
gradients set to none.

SPEC: {job, device, precision, compile, weights: safetensors with our names, or null: drawn}, and
either
  windows, steps: trains on windows (int32, steps x batch x (sequence + 1)); prints {"losses": [..]}
  tokens: a file of uint16 tokens: prints {"ready": true, ..} after the first steps; then for each
  line "N" of
                   the standard input trains N steps, and prints {"seconds": of one, "loss": the
                   last}
precision: fp32; autocast: parameters in fp32, bf16 where torch.autocast says; bf16: parameters,
activations and their gradients in bf16, sums of gradients and the state of the optimizer in fp32.
"""
import contextlib
import json
import math
import os
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from peer import learning_rate, load_tensors, torch_state  # noqa: E402


def attend(q, k, v):
    """Causal; fewer key heads than query heads are shared by neighbours."""
    if hasattr(F, "scaled_dot_product_attention"):
        more = {"enable_gqa": True} if q.shape[1] != k.shape[1] else {}
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, **more)
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    t = q.shape[2]
    late = torch.ones(t, t, dtype=torch.bool, device=q.device).triu(1)
    return (q @ k.transpose(2, 3) / math.sqrt(q.shape[3])).masked_fill(late, float("-inf")).softmax(-1) @ v


def heads(x, n):
    """(batch, position, n d) -> (batch, head, position, d)"""
    return x.view(x.shape[0], x.shape[1], n, -1).transpose(1, 2)


def together(x):
    return x.transpose(1, 2).flatten(2)


class GptBlock(nn.Module):
    def __init__(self, m):
        super().__init__()
        d, self.heads = m["hidden"], m["heads"]
        self.ln_1, self.ln_2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.fc, self.out = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        q, k, v = (heads(p, self.heads) for p in self.qkv(self.ln_1(x)).chunk(3, -1))
        x = x + self.proj(together(attend(q, k, v)))
        return x + self.out(F.gelu(self.fc(self.ln_2(x))))

    def take(self, s, at):
        """Weights by our names that begin with @at."""
        for name, module in (("ln_1", self.ln_1), ("ln_2", self.ln_2), ("attn.proj", self.proj), ("mlp.fc", self.fc),
                             ("mlp.proj", self.out)):
            module.load_state_dict({k: s["%s%s.%s" % (at, name, k)] for k in ("weight", "bias")})
        self.qkv.load_state_dict({k: torch.cat([s["%sattn.%s.%s" % (at, p, k)] for p in "qkv"])
                                  for k in ("weight", "bias")})


class Gpt(nn.Module):
    def __init__(self, m):
        super().__init__()
        d = m["hidden"]
        self.wte, self.wpe = nn.Embedding(m["vocab"], d), nn.Embedding(m["sequence"], d)
        self.blocks = nn.ModuleList(GptBlock(m) for _ in range(m["layers"]))
        self.ln_f = nn.LayerNorm(d)
        self.head = None if m.get("tied_head") else nn.Linear(d, m["vocab"], bias=False)

    def forward(self, ids):
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1], device=ids.device))
        for b in self.blocks:
            x = b(x)
        return F.linear(self.ln_f(x), self.wte.weight if self.head is None else self.head.weight)

    def take(self, s):
        self.wte.load_state_dict({"weight": s["wte.weight"]})
        self.wpe.load_state_dict({"weight": s["wpe.weight"]})
        self.ln_f.load_state_dict({k: s["ln_f." + k] for k in ("weight", "bias")})
        for l, b in enumerate(self.blocks):
            b.take(s, "h.%d." % l)
        if self.head is not None:
            self.head.load_state_dict({"weight": s["lm_head.weight"]})


class RmsNorm(nn.Module):
    def __init__(self, d, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(d)), eps

    def forward(self, x):
        y = x.float()
        return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight.float()).to(x.dtype)


class LlamaBlock(nn.Module):
    def __init__(self, m):
        super().__init__()
        d, eps = m["hidden"], m.get("rms_norm_eps", 1e-5)
        self.heads, self.kv = m["heads"], m.get("kv_heads") or m["heads"]
        self.wide = m.get("intermediate") or -(-(-(-8 * d // 3)) // 32) * 32
        self.split = [d, self.kv * (d // self.heads), self.kv * (d // self.heads)]
        self.norm_1, self.norm_2 = RmsNorm(d, eps), RmsNorm(d, eps)
        self.qkv, self.proj = nn.Linear(d, sum(self.split), bias=False), nn.Linear(d, d, bias=False)
        self.up, self.down = nn.Linear(d, 2 * self.wide, bias=False), nn.Linear(self.wide, d, bias=False)

    def forward(self, x, cos, sin):
        q, k, v = self.qkv(self.norm_1(x)).split(self.split, -1)
        q, k, v = heads(q, self.heads), heads(k, self.kv), heads(v, self.kv)
        x = x + self.proj(together(attend(turned(q, cos, sin), turned(k, cos, sin), v)))
        gate, up = self.up(self.norm_2(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)

    def take(self, s, at):
        for name, module in (("input_layernorm", self.norm_1), ("post_attention_layernorm", self.norm_2),
                             ("self_attn.o_proj", self.proj), ("mlp.down_proj", self.down)):
            module.load_state_dict({"weight": s["%s%s.weight" % (at, name)]})
        self.qkv.load_state_dict({"weight": torch.cat([s["%sself_attn.%s_proj.weight" % (at, p)] for p in "qkv"])})
        self.up.load_state_dict({"weight": torch.cat([s["%smlp.%s_proj.weight" % (at, p)] for p in ("gate", "up")])})


def turned(x, cos, sin):
    """Rotary positions, in fp32: the halves of a head are the two coordinates."""
    a, b = x.float().chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1).to(x.dtype)


class Llama(nn.Module):
    def __init__(self, m):
        super().__init__()
        d, half = m["hidden"], m["hidden"] // m["heads"] // 2
        self.embed = nn.Embedding(m["vocab"], d)
        self.blocks = nn.ModuleList(LlamaBlock(m) for _ in range(m["layers"]))
        self.norm = RmsNorm(d, m.get("rms_norm_eps", 1e-5))
        self.head = None if m.get("tied_head") else nn.Linear(d, m["vocab"], bias=False)
        angle = torch.outer(torch.arange(m["sequence"], dtype=torch.float64),
                            m.get("rope_theta", 10000.0) ** (-torch.arange(half, dtype=torch.float64) / half))
        # no buffers: those would become bf16
        self.angles = (angle.cos().float(), angle.sin().float())

    def forward(self, ids):
        x = self.embed(ids)
        cos, sin = self.angles
        for b in self.blocks:
            x = b(x, cos, sin)
        return F.linear(self.norm(x), self.embed.weight if self.head is None else self.head.weight)

    def take(self, s):
        self.embed.load_state_dict({"weight": s["model.embed_tokens.weight"]})
        self.norm.load_state_dict({"weight": s["model.norm.weight"]})
        for l, b in enumerate(self.blocks):
            b.take(s, "model.layers.%d." % l)
        if self.head is not None:
            self.head.load_state_dict({"weight": s["lm_head.weight"]})


def first_weights(module):
    """GPT-2's."""
    if isinstance(module, (nn.Linear, nn.Embedding)):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)


def copy_all(to, of):
    if hasattr(torch, "_foreach_copy_"):
        torch._foreach_copy_(to, of)
    else:
        for a, b in zip(to, of):
            a.copy_(b)


class Trainer:
    def __init__(self, spec):
        self.job, self.device, self.precision = spec["job"], spec["device"], spec["precision"]
        model, train = self.job["model"], self.job["train"]
        there = torch.device(self.device)
        with there if hasattr(there, "__enter__") else contextlib.nullcontext():
            self.net = {"gpt": Gpt, "llama": Llama}[model["family"]](model)
        self.net.to(self.device)
        if model["family"] == "llama":
            self.net.angles = tuple(a.to(self.device) for a in self.net.angles)
        if spec.get("weights"):
            self.net.take(torch_state(load_tensors(spec["weights"])))
        else:
            self.net.apply(first_weights)
        self.used = list(self.net.parameters())
        self.master = self.used
        if self.precision == "bf16":
            self.master = [nn.Parameter(p.detach().clone()) for p in self.used]
            self.net.to(torch.bfloat16)
        self.optimizer = self.make_optimizer(train["optimizer"])
        self.loss = torch.compile(self.plain_loss) if spec["compile"] else self.plain_loss
        self.clip = train.get("clip_norm", 0.0)

    def make_optimizer(self, o):
        groups = [{"params": [p for p in self.master if p.dim() >= 2], "weight_decay": o.get("weight_decay", 0.0)},
                  {"params": [p for p in self.master if p.dim() < 2], "weight_decay": 0.0}]
        if o["name"] == "sgd":
            return torch.optim.SGD(groups, lr=o["lr"], momentum=o.get("momentum", 0.9))
        fused = {"fused": True} if self.device != "cpu" else {}
        return torch.optim.AdamW(groups, lr=o["lr"], betas=tuple(o.get("betas", (0.9, 0.999))), eps=o.get("eps", 1e-8),
                                 **fused)

    def plain_loss(self, window):
        ids, labels = window[:, :-1], window[:, 1:]
        return F.cross_entropy(self.net(ids).flatten(0, 1).float(), labels.flatten())

    def step(self, t, window):
        """@window: (batch, sequence + 1) on the device. The loss before the step, on the device."""
        self.optimizer.zero_grad(set_to_none=True)
        for p in self.used:
            p.grad = None
        with torch.autocast(torch.device(self.device).type, dtype=torch.bfloat16, enabled=self.precision == "autocast"):
            loss = self.loss(window)
        loss.backward()
        if self.master is not self.used:
            for m in self.master:
                m.grad = torch.empty_like(m)
            copy_all([m.grad for m in self.master], [p.grad for p in self.used])
        if self.clip:
            nn.utils.clip_grad_norm_(self.master, self.clip)
        for g in self.optimizer.param_groups:
            g["lr"] = learning_rate(self.job["train"], t)
        self.optimizer.step()
        if self.master is not self.used:
            with torch.no_grad():
                copy_all(self.used, self.master)
        return loss.detach()


def train(trainer, spec):
    shape = (spec["steps"], trainer.job["train"]["global_batch"], trainer.job["model"]["sequence"] + 1)
    with open(spec["windows"], "rb") as f:
        windows = torch.frombuffer(bytearray(f.read()), dtype=torch.int32).reshape(shape).long().to(trainer.device)
    losses = [trainer.step(t, windows[t]) for t in range(spec["steps"])]
    print(json.dumps({"losses": [x.item() for x in losses], "torch": torch.__version__}))


def wait(device):
    if device != "cpu":
        torch.cuda.synchronize()


def serve(trainer, spec):
    batch, length = trainer.job["train"]["global_batch"], trainer.job["model"]["sequence"] + 1
    with open(spec["tokens"], "rb") as f:
        stream = torch.frombuffer(bytearray(f.read()), dtype=torch.int16).to(trainer.device)
    t = 0

    def some(n):
        nonlocal t
        loss = None
        for _ in range(n):
            at = t * batch * length % (stream.numel() - batch * length)
            window = stream[at:at + batch * length].reshape(batch, length).long() & 0xffff
            loss = trainer.step(t, window)
            t += 1
        wait(trainer.device)
        return loss

    first = some(1).item()
    some(2)
    if trainer.device != "cpu":
        torch.cuda.empty_cache()  # memory that only compilation has used is left to others
    some(2)
    memory = torch.cuda.max_memory_allocated() if trainer.device != "cpu" else 0
    print(json.dumps({"ready": True, "first_loss": first, "memory": memory, "torch": torch.__version__}), flush=True)
    for line in sys.stdin:
        n, began = int(line), time.perf_counter()
        loss = some(n)
        print(json.dumps({"seconds": (time.perf_counter() - began) / n, "loss": loss.item()}), flush=True)


def main():
    with open(sys.argv[1]) as f:
        spec = json.load(f)
    torch.manual_seed(spec["job"]["train"].get("seed", 1))
    torch.backends.cuda.matmul.allow_tf32 = False
    trainer = Trainer(spec)
    if "windows" in spec:
        train(trainer, spec)
    else:
        serve(trainer, spec)


if __name__ == "__main__":
    main()
