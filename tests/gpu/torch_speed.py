#!/usr/bin/env python3
"""Times the attention and the products of op_speed in PyTorch, attention by each backend of
scaled_dot_product_attention.

    torch_speed.py SHAPES          (tests/gpu/shapes.txt)

Prints one line for each measurement, in the words of op_speed:
    attention gpt2-s1024 forward cudnn 301.2 us 171.1 TFLOP/s
    product gpt2-head dw torch 2210.0 us 735.5 TFLOP/s
    attention llama-s16384 forward flash refused: No available kernel
`torch` is PyTorch's own choice. Operands are random bf16, a time is the shortest mean of ROUNDS
rounds of CALLS calls by the device's clock. Exit status: 0 every shape has its lines, 77 there is
no PyTorch, or it sees no GPU.
"""
import sys

ROUNDS, CALLS = 5, 10


def read_shapes(path):
    """[(kind, name, extents)] of a file of shapes."""
    with open(path) as f:
        words = [line.split() for line in f if line.strip() and not line.startswith("#")]
    return [(w[0], w[1], [int(x) for x in w[2:]]) for w in words]


def attention_flop(batch, sequence, heads, _, width):
    """Of causal attention forward: two products of half of all pairs of a query and a key."""
    return 2.0 * batch * heads * sequence * sequence * width


def fastest(torch, call):
    """Seconds of one call."""
    best = float("inf")
    for i in range(ROUNDS + 1):  # the first: warm-up
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(CALLS):
            call()
        end.record()
        end.synchronize()
        if i > 0:
            best = min(best, begin.elapsed_time(end) / 1e3 / CALLS)
    return best


def report(torch, kind, name, part, by, call, flop):
    """One line; True where there is a figure."""
    words = " ".join((kind, name, part, by))
    try:
        s = fastest(torch, call)
    except RuntimeError as e:  # a backend that does not take this shape, or memory
        if "CUDA error" in str(e):  # the GPU has failed, and will fail for all that follows
            raise
        print(words, "refused: %s" % (str(e).strip().splitlines() or ["no reason"])[0][:100], flush=True)
        return False
    print(words, "%.1f us %.1f TFLOP/s" % (1e6 * s, flop / s * 1e-12), flush=True)
    return True


def random(torch, *extents):
    return torch.randn(*extents, device="cuda", dtype=torch.bfloat16)


def time_attention(torch, name, extents):
    from torch.nn.attention import SDPBackend, sdpa_kernel
    batch, sequence, heads, key_heads, width = extents
    q, k, v = (random(torch, batch, sequence, h, width).transpose(1, 2).requires_grad_()
               for h in (heads, key_heads, key_heads))
    gradient, flop = random(torch, batch, sequence, heads, width).transpose(1, 2), attention_flop(*extents)

    def forward():
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=heads != key_heads)

    def both(by):
        if report(torch, "attention", name, "forward", by, forward, flop):
            o = forward()
            report(torch, "attention", name, "backward", by,
                   lambda: torch.autograd.grad(o, (q, k, v), gradient, retain_graph=True), 2.5 * flop)

    both("torch")
    for by, backend in (("cudnn", SDPBackend.CUDNN_ATTENTION), ("flash", SDPBackend.FLASH_ATTENTION)):
        with sdpa_kernel(backend):
            both(by)


def time_product(torch, name, extents):
    m, n, k = extents
    x, w, y = random(torch, m, k), random(torch, n, k), random(torch, m, n)
    for part, call in (("y", lambda: x @ w.t()), ("dx", lambda: y @ w), ("dw", lambda: y.t() @ x)):
        report(torch, "product", name, part, "torch", call, 2.0 * m * n * k)


def main(args):
    if len(args) != 1:
        print("usage: torch_speed.py SHAPES", file=sys.stderr)
        return 2
    try:
        import torch
    except ImportError as e:
        print("torch_speed.py: no PyTorch: %s" % e, file=sys.stderr)
        return 77
    if not torch.cuda.is_available():
        print("torch_speed.py: no GPU that PyTorch %s sees" % torch.__version__, file=sys.stderr)
        return 77
    for kind, name, extents in read_shapes(args[0]):
        try:
            (time_attention if kind == "attention" else time_product)(torch, name, extents)
        except torch.cuda.OutOfMemoryError:
            print(kind, name, "forward" if kind == "attention" else "y", "torch refused: out of memory", flush=True)
        torch.cuda.empty_cache()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
