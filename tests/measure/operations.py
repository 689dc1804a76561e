"""Times the same operations in PyTorch: operations.py [THREADS [SECONDS [bf16]]].

Lines of the standard input as in operations.c; the answers name the same operations. Each is tried in PyTorch's own layout
and channels-last, and the faster one counts. What a linear layer's or a norm's backward pass is made of is one call there,
so it stands under the name of the last of its operations. With one thread the seconds are those of its processor time.
"""
import sys
import time

import torch
import torch.nn.functional as F

SECONDS = float(sys.argv[2]) if len(sys.argv) > 2 else 0.2
THREADS = int(sys.argv[1]) if len(sys.argv) > 1 else 2
CLOCK = time.thread_time if THREADS == 1 else time.perf_counter
torch.set_num_threads(THREADS)
torch.manual_seed(0)
if len(sys.argv) > 3 and sys.argv[3].startswith("bf16"):
    torch.set_default_dtype(torch.bfloat16)  # all tensors, weights too: less work than autocast, which casts them


def fastest(run):
    run()
    best, start, runs = 1e9, CLOCK(), 0
    while runs < 3 or CLOCK() - start < SECONDS:
        before = CLOCK()
        run()
        best = min(best, CLOCK() - before)
        runs += 1
    return best


def forward_and_backward(name, function, *inputs):
    """Times function(*inputs) and its gradient, given that of its result."""
    inputs = [i.requires_grad_() if i.is_floating_point() else i for i in inputs]
    wanted = [i for i in inputs if i.requires_grad]
    y = function(*inputs)
    g = torch.rand_like(y)
    with torch.no_grad():
        forward = fastest(lambda: function(*inputs))
    backward = fastest(lambda: torch.autograd.grad(y, wanted, g, retain_graph=True))
    return {name: forward, name + "_BACKWARD": backward}


def clip(s, *, layout=True):
    shape = (s[0], s[4], s[1], s[2], s[3]) if s[1] else (s[0], s[4], s[2], s[3])
    x = torch.rand(shape) - 0.5
    return x.to(memory_format=torch.channels_last_3d if s[1] else torch.channels_last) if layout else x


def convolution(s, layout):
    axis = 0 if s[1] else 1
    kernel, stride, pad = s[6 + axis:9], s[9 + axis:12], s[12 + axis:15]
    form = (torch.channels_last_3d if s[1] else torch.channels_last) if layout else torch.contiguous_format
    x = clip(s, layout=layout)
    w = (torch.rand(s[5], s[4] // s[15], *kernel) - 0.5).to(memory_format=form)
    b = None if s[1] else torch.rand(s[5])
    y = torch.convolution(x, w, b, stride, pad, [1] * len(stride), False, [0] * len(stride), s[15])
    dy = torch.rand_like(y)

    def backward(mask):
        return lambda: torch.ops.aten.convolution_backward(
            dy, x, w, None if s[1] else [s[5]], stride, pad, [1] * len(stride), False, [0] * len(stride), s[15], mask)

    with torch.no_grad():
        return {"CONVOLUTION": fastest(lambda: torch.convolution(
                    x, w, b, stride, pad, [1] * len(stride), False, [0] * len(stride), s[15])),
                "CONVOLUTION_DATA": fastest(backward([True, False, False])),
                "CONVOLUTION_WEIGHT": fastest(backward([False, True, not s[1]]))}


def linear(s, layout):
    x, w, b = torch.rand(s[0], s[1]) - 0.5, torch.rand(s[2], s[1]) - 0.5, torch.rand(s[2])
    dy = torch.rand(s[0], s[2])
    with torch.no_grad():
        return {"LINEAR": fastest(lambda: F.linear(x, w, b)), "LINEAR_DATA": fastest(lambda: dy @ w),
                "LINEAR_WEIGHT": fastest(lambda: (dy.T @ x, dy.sum(0)))}


def batch_norm(s, layout):
    x, g, b, mean, var = clip(s, layout=layout), torch.rand(s[4]), torch.rand(s[4]), torch.zeros(s[4]), torch.ones(s[4])
    inputs = [x, g, b] + ([clip(s, layout=layout)] if s[6] else [])

    def run(x, g, b, residual=None):
        y = F.batch_norm(x, mean, var, g, b, True)
        y = y if residual is None else y + residual
        return F.relu(y, inplace=True) if s[5] else y

    return forward_and_backward("BATCH_NORM", run, *inputs)


def group_norm(s, layout):
    return forward_and_backward(
        "GROUP_NORM", lambda x, g, b: F.silu(F.group_norm(x, s[5], g, b)) if s[6] else F.group_norm(x, s[5], g, b),
        clip(s, layout=layout), torch.rand(s[4]), torch.rand(s[4]))


def layer_norm(s, layout):
    return forward_and_backward("LAYER_NORM", lambda x, g, b: F.layer_norm(x, (s[1],), g, b),
                                torch.rand(s[0], s[1]), torch.rand(s[1]), torch.rand(s[1]))


def attention(s, layout):
    def heads(x):
        return x.view(x.shape[0], x.shape[1], s[4], -1).transpose(1, 2)

    return forward_and_backward(
        "ATTENTION", lambda q, k, v: F.scaled_dot_product_attention(heads(q), heads(k), heads(v)),
        torch.rand(s[0], s[1], s[3]), torch.rand(s[0], s[2], s[3]), torch.rand(s[0], s[2], s[3]))


def geglu(s, layout):
    def run(x):
        a, g = x.chunk(2, dim=-1)
        return a * F.gelu(g)

    return forward_and_backward("GEGLU", run, torch.rand(s[0], s[1]) - 0.5)


def activation(s, layout):
    kinds = {1: F.relu, 2: F.silu, 3: F.gelu, 4: torch.sigmoid, 5: torch.exp, 6: torch.abs, 7: F.softplus}
    return forward_and_backward("ACTIVATION", kinds[s[2]], torch.rand(s[0], s[1]) - 0.5)


def pool(name, functions):
    def run(s, layout):
        function = functions[1 if s[1] else 0]
        return forward_and_backward(name, lambda x: function(x, s[5], s[6], s[7]), clip(s, layout=layout))

    return run


def global_pool(s, layout):
    axes = (2, 3, 4) if s[1] else (2, 3)
    return forward_and_backward("GLOBAL_POOL", lambda x: x.mean(axes), clip(s, layout=layout))


def upsample(s, layout):
    return forward_and_backward("UPSAMPLE", lambda x: F.interpolate(x, scale_factor=2.0), clip(s, layout=layout))


def concat(s, layout):
    return forward_and_backward(
        "CONCAT", lambda a, b: torch.cat((a, b), 1), clip(s, layout=layout), clip(s, layout=layout))


def add(s, layout):
    a, b = torch.rand(s[0], s[1]), torch.rand(s[0], s[1])
    return {"ADD": fastest(lambda: a + b)}


def cross_entropy(s, layout):
    target = torch.arange(s[0]) % 7
    return forward_and_backward(
        "CROSS_ENTROPY", lambda x: F.cross_entropy(x, target, label_smoothing=s[2] / 100), torch.rand(s[0], s[1]))


def embedding(s, layout):
    index = torch.arange(s[2]) * 7919 % 7
    times = forward_and_backward("GATHER", lambda w: F.embedding(index, w), torch.rand(s[0], s[1]))
    return times


OPERATIONS = {
    "convolution": convolution, "linear": linear, "batch-norm": batch_norm, "group-norm": group_norm,
    "layer-norm": layer_norm, "attention": attention, "geglu": geglu, "activation": activation,
    "max-pool": pool("MAX_POOL", (F.max_pool2d, F.max_pool3d)),
    "average-pool": pool("AVERAGE_POOL", (F.avg_pool2d, F.avg_pool3d)), "global-pool": global_pool,
    "upsample": upsample, "concat": concat, "add": add, "cross-entropy": cross_entropy, "embedding": embedding,
}
LAYOUTS = {"convolution", "batch-norm", "group-norm", "max-pool", "average-pool", "global-pool", "upsample", "concat"}


def main():
    for line in sys.stdin:
        name, *sizes = line.split()
        s = [int(size) for size in sizes]
        runs = [OPERATIONS[name](s, layout) for layout in ((False, True) if name in LAYOUTS else (False,))]
        for operation in runs[0]:
            print(f"{operation.lower().replace('_', '-')}\t{min(run[operation] for run in runs):.9f}")
        print(flush=True)


main()
