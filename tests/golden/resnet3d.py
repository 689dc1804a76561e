#!/usr/bin/env python3
"""Makes resnet3d.tsv, resnet3d_rounding.tsv and resnet3d.safetensors with the original networks: resnet3d.py ORIGINAL [PART ...].

ORIGINAL is a directory with the original project (3D-ResNets-PyTorch, its folder models). Three of its families only work with
their arguments' names put right, which is done here in memory; shortcuts of type A pass their gradient on unless a vector is
said to be detached.

resnet3d.tsv (part names): for every model and type of shortcut the SHA-256 of the lines "NAME SIZES" of its state_dict, 400 classes.

resnet3d_rounding.tsv (part rounding): for every vector of support/resnet3d_vectors.c, how far PyTorch's single precision gets from
its double precision, the worst of three ways to run it (two threads, channels-last, one thread): logits and loss by running
statistics, losses of three steps, relative norms of all gradients and of the first convolution's, logits after that, sums of
running means and, relative, variances of the last and first norm.

resnet3d.safetensors (part frames): ten steps of SGD (rate 0.001, momentum 0.9, decay 1e-3) of a resnet-10 of width 0.125 on frames of
two videos, RUN frames; as clips.py has them: losses, first, gradients, changes, last, and .rounding of each. frames.sha256: of the
frames, without which the numbers mean nothing. The batch of step s holds 4 clips of 8 frames of 48x48; clip n is of video n mod 2,
from frame 2 ((s + n) mod 4) on, its corner at row s mod 4 and column 2 n, mirrored where s + n is odd; its class is (3 n + s) mod 10.
"""
import functools
import hashlib
import math
import os
import re
import subprocess
import sys
import types

import numpy
import torch
from safetensors.torch import save_file
from torch.nn import functional as F

here = os.path.dirname(os.path.abspath(__file__))
original = sys.argv[1]
parts = sys.argv[2:] or ["names", "rounding", "frames"]
MODULES = {"resnet": "resnet", "resnet2p1d": "resnet2p1d", "preresnet": "pre_act_resnet", "wideresnet": "wide_resnet",
           "resnext": "resnext", "densenet": "densenet"}
DEEP, ANY, DENSE = (50, 101, 152, 200), (10, 18, 34, 50, 101, 152, 200), (121, 169, 201, 264)


def partial_class(base, *arguments, **names):
    return type(base.__name__, (base,), {"__init__": functools.partialmethod(base.__init__, *arguments, **names)})


def load(name):
    with open(os.path.join(original, "models", name + ".py")) as file:
        source = file.read()
    if name in ("pre_act_resnet", "resnext"):
        source = re.sub(r"\binplanes\b", "in_planes", source)
    if name == "resnext":
        source = source.replace("from utils import partialclass", "").replace("shortcut_type, n_classes)", "shortcut_type, 1.0, n_classes)")
        source = source.replace("cardinality * 32 * block.expansion", "1024 * block.expansion")
    if name == "densenet":
        source = re.sub(r"\bnum_classes\b", "n_classes", source).replace("kaiming_normal(", "kaiming_normal_(")
    module = types.ModuleType("models." + name)
    module.__package__ = "models"
    module.partialclass = partial_class
    sys.modules[module.__name__] = module
    exec(compile(source, name + ".py", "exec"), module.__dict__)
    return module


sys.modules["models"] = types.ModuleType("models")
sys.modules["models"].__path__ = []
modules = {family: load(name) for family, name in MODULES.items()}
detached = modules["resnet"].ResNet._downsample_basic_block
owners = [modules["resnet"].ResNet, modules["resnet2p1d"].ResNet]


def attached(self, x, planes, stride):
    y = F.avg_pool3d(x, kernel_size=1, stride=stride)
    return torch.cat([y, y.new_zeros(y.size(0), planes - y.size(1), *y.shape[2:])], dim=1)


def make(family, depth, detach=False, classes=10, **options):
    for owner in owners:
        owner._downsample_basic_block = detached if detach else attached
    if family == "wideresnet":
        options.setdefault("k", 2)
    return modules[family].generate_model(depth, n_classes=classes, **options)


def write(name, lines):
    with open(os.path.join(here, name), "w", buffering=1) as file:
        file.writelines("\t".join(map(str, line)) + "\n" for line in lines)


# ---- names ----

def names():
    yield "#family", "depth", "shortcut", "sha256"
    for family in MODULES:
        for depth in DENSE if family == "densenet" else DEEP if family in ("wideresnet", "resnext") else ANY:
            for shortcut in "B" if family == "densenet" else "BA":
                with torch.device("meta"):
                    net = make(family, depth, classes=400, **({} if family == "densenet" else {"shortcut_type": shortcut}))
                lines = "".join(" ".join([name, *map(str, tensor.shape)]) + "\n" for name, tensor in net.state_dict().items())
                yield family, depth, shortcut, hashlib.sha256(lines.encode()).hexdigest()


# ---- vectors ----

def uniform(name, count):
    value = 0xcbf29ce484222325
    for byte in name.encode():
        value = (value ^ byte) * 0x100000001b3 % 2**64
    z = numpy.uint64(value) + numpy.arange(1, count + 1, dtype=numpy.uint64) * numpy.uint64(0x9E3779B97F4A7C15)
    z = (z ^ z >> numpy.uint64(30)) * numpy.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ z >> numpy.uint64(27)) * numpy.uint64(0x94D049BB133111EB)
    z ^= z >> numpy.uint64(31)
    return torch.from_numpy((z >> numpy.uint64(11)).astype(numpy.float64) * 2.0**-53)


def fill(net):
    with torch.no_grad():
        for name, tensor in net.state_dict().items():
            if "running" in name or "tracked" in name:
                continue
            u = uniform(name, tensor.numel()).reshape(tensor.shape)
            if tensor.dim() == 5:
                u = (2 * u - 1) * math.sqrt(6 * tensor.shape[1] / tensor.numel())
            elif tensor.dim() == 2:
                u = (2 * u - 1) / math.sqrt(tensor.shape[1])
            elif name.endswith("weight"):
                u = 0.1 + 0.2 * u
            else:
                u = (0.1 if name.startswith(("fc", "classifier")) else 0.2) * (2 * u - 1)
            tensor.copy_(u)


USUAL = (2, 3, 16, 64, 64)
SMALL = (2, 3, 8, 64, 64)
THIN = {"widen_factor": 0.125}
VECTORS = {
    "resnet-10 B": ("resnet", 10, USUAL, {}),
    "resnet-10 A detached": ("resnet", 10, USUAL, {"shortcut_type": "A", "detach": True}),
    "resnet-18 B": ("resnet", 18, USUAL, {}),
    "resnet-18 B, kt 3, t-stride 2, no max-pool":
        ("resnet", 18, (2, 3, 16, 32, 32), {"conv1_t_size": 3, "conv1_t_stride": 2, "no_max_pool": True}),
    "resnet-18 B, widen 0.5, 2 channels": ("resnet", 18, (2, 2, 16, 64, 64), {"widen_factor": 0.5, "n_input_channels": 2}),
    "resnet-34 B": ("resnet", 34, USUAL, {}),
    "resnet-50 B": ("resnet", 50, USUAL, {}),
    "resnet-50 A detached": ("resnet", 50, USUAL, {"shortcut_type": "A", "detach": True}),
    "resnet2p1d-18 B": ("resnet2p1d", 18, USUAL, {}),
    "resnet2p1d-50 B": ("resnet2p1d", 50, USUAL, {}),
    "preresnet-18 B": ("preresnet", 18, USUAL, {}),
    "preresnet-50 B": ("preresnet", 50, USUAL, {}),
    "wideresnet-50 k2 B": ("wideresnet", 50, USUAL, {}),
    "resnext-50 c32 B": ("resnext", 50, USUAL, {}),
    "densenet-121": ("densenet", 121, USUAL, {}),
    "case 1: resnet-10 B, widen 0.125": ("resnet", 10, USUAL, THIN),
    "case 2: resnet-10 A, widen 0.125": ("resnet", 10, USUAL, dict(THIN, shortcut_type="A")),
    "case 3: resnet-18 B, widen 0.25, kt 3": ("resnet", 18, (3, 3, 5, 37, 75), {"widen_factor": 0.25, "conv1_t_size": 3}),
    "case 4: resnet-10 B, widen 0.125, kt 4": ("resnet", 10, (2, 3, 6, 64, 64), dict(THIN, conv1_t_size=4)),
    "case 5: resnet-50 B, widen 0.125": ("resnet", 50, (4, 3, 8, 64, 64), THIN),
    "case 6: resnet2p1d-10 B, widen 0.25, kt 3, 2 channels":
        ("resnet2p1d", 10, (2, 2, 8, 64, 64), {"widen_factor": 0.25, "conv1_t_size": 3, "n_input_channels": 2}),
    "case 7: preresnet-10 A": ("preresnet", 10, SMALL, {"shortcut_type": "A"}),
    "case 8: resnext-50 B, cardinality 8": ("resnext", 50, SMALL, {"cardinality": 8}),
    "case 9: densenet-121, kt 3, t-stride 2, no max-pool":
        ("densenet", 121, (2, 3, 16, 32, 32), {"conv1_t_size": 3, "conv1_t_stride": 2, "no_max_pool": True}),
    "case 10: wideresnet-50 B, k 1, kt 3": ("wideresnet", 50, SMALL, {"k": 1, "conv1_t_size": 3}),
    "case 11: resnet-10 A": ("resnet", 10, USUAL, {"shortcut_type": "A"}),
    "case 12: resnet-18 A": ("resnet", 18, USUAL, {"shortcut_type": "A"}),
    "case 13: resnet-50 A": ("resnet", 50, USUAL, {"shortcut_type": "A"}),
    "case 14: resnet-10 B, trained from layer4": ("resnet", 10, USUAL, {"first": "layer4"}),
    "case 15: resnet-10 B, widen 0.125, trained from fc": ("resnet", 10, USUAL, dict(THIN, first="fc")),
}


def statistics(norm):
    return [norm.running_mean.double().sum().item(), math.log(norm.running_var.double().sum().item())]


def run_vector(family, depth, shape, options, dtype, threads, memory_format):
    options = dict(options)
    first = options.pop("first", None)
    torch.set_num_threads(threads)
    net = make(family, depth, **options).to(dtype)
    fill(net)
    net = net.to(memory_format=memory_format)
    x = (1.5 * (2 * uniform("input", math.prod(shape)) - 1)).reshape(shape).to(dtype).contiguous(memory_format=memory_format)
    target = torch.tensor([3 * n % 10 for n in range(shape[0])])
    everything = [name for name, _ in net.named_parameters()]
    begin = next(i for i, name in enumerate(everything) if not first or name.split(".")[0] == first)
    trained = [p for _, p in net.named_parameters()][begin:]
    optimizer = torch.optim.SGD(trained, lr=1e-5, momentum=0.9, weight_decay=1e-3)
    net.eval()
    with torch.no_grad():
        logits = net(x).double()
    result = [logits.flatten(), F.cross_entropy(logits, target).item()]
    net.train()
    for step in range(3):
        net.zero_grad()
        loss = F.cross_entropy(net(x), target)
        loss.backward()
        result.append(loss.item())
        if step == 0:
            norm = math.sqrt(sum(p.grad.double().square().sum().item() for p in trained))
            conv = next(net.parameters()).grad.double().norm().item()
        optimizer.step()
    net.eval()
    with torch.no_grad():
        after = net(x).double()[0, :4]
    norms = [m for m in net.modules() if isinstance(m, torch.nn.BatchNorm3d)]
    return result + [math.log(norm), math.log(conv), after] + statistics(norms[-1]) + statistics(norms[0])


def distance(a, b):
    return (a - b).abs().max().item() if torch.is_tensor(a) else abs(a - b)


def rounding():
    yield ("#vector", "logits", "loss", "loss1", "loss2", "loss3", "norm", "first", "after", "mean", "variance", "first_mean",
           "first_variance")
    for name, vector in VECTORS.items():
        exact = run_vector(*vector, torch.float64, 2, torch.contiguous_format)
        worst = [0.0] * len(exact)
        for threads, memory_format in ((2, torch.contiguous_format), (2, torch.channels_last_3d), (1, torch.contiguous_format)):
            single = run_vector(*vector, torch.float32, threads, memory_format)
            worst = [max(w, distance(a, b)) for w, a, b in zip(worst, exact, single)]
        print(name, exact, worst, file=sys.stderr, flush=True)
        yield (name, *(f"{value:.2e}" for value in worst))


# ---- frames ----

VIDEOS = (("cockatoo.mp4", "crop=112:112:600:300"), ("nasa_13013.mp4", "crop=112:112:180:80"))
FRAMES, SIDE, CLIP, CROP, STEPS = 14, 56, 8, 48, 10
MEAN, STD = (0.4345, 0.4051, 0.3775), (0.2768, 0.2713, 0.2737)


def decode(folder):
    """[2, FRAMES, SIDE, SIDE, 3] uint8: every second row and column of a part of the first frames."""
    frames = []
    for name, crop in VIDEOS:
        raw = subprocess.run(["ffmpeg", "-v", "error", "-i", os.path.join(folder, name), "-vf", crop, "-frames:v", str(FRAMES), "-f",
                              "rawvideo", "-pix_fmt", "rgb24", "-"], check=True, stdout=subprocess.PIPE).stdout
        frames.append(numpy.frombuffer(raw, numpy.uint8).reshape(FRAMES, 2 * SIDE, 2 * SIDE, 3)[:, ::2, ::2])
    return numpy.ascontiguousarray(numpy.stack(frames))


def batch(frames, step, dtype):
    clips = []
    for n in range(4):
        t, row, column = 2 * ((step + n) % 4) % (FRAMES - CLIP + 1), step % 4, 2 * n
        clip = frames[n % 2, t:t + CLIP, row:row + CROP, column:column + CROP]
        clips.append(clip[:, :, ::-1] if (step + n) % 2 else clip)
    x = torch.from_numpy(numpy.stack(clips)).float() / 255
    x = (x - torch.tensor(MEAN)) / torch.tensor(STD)
    return x.permute(0, 4, 1, 2, 3).contiguous().to(dtype), torch.tensor([(3 * n + step) % 10 for n in range(4)])


def tensors(net):
    return sorted((n, t) for n, t in net.state_dict(keep_vars=True).items() if not n.endswith("tracked"))


def row(values):
    g = values.detach().flatten().double()
    n = g.numel()
    j = torch.arange(n, dtype=torch.float64)
    spaced = [g[i * (n - 1) // 7] for i in range(8)]
    return torch.stack([torch.tensor(float(n), dtype=torch.float64), g.square().mean().sqrt(),
                        (g * torch.cos(0.7 * j + 0.3)).sum() / math.sqrt(n)] + spaced)


def train(frames, dtype):
    torch.set_num_threads(1)
    net = make("resnet", 10, widen_factor=0.125).to(dtype)
    fill(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.001, momentum=0.9, weight_decay=1e-3, foreach=False)
    before = {n: t.detach().clone() for n, t in tensors(net)}
    results, losses = {}, []
    for step in range(1, STEPS + 1):
        x, target = batch(frames, step, dtype)
        each = F.cross_entropy(net(x), target, reduction="none")
        optimizer.zero_grad()
        each.mean().backward()
        if step == 1:
            results["first"] = each
            results["gradients"] = torch.stack([row(t.grad) for n, t in tensors(net) if "running" not in n])
        optimizer.step()
        losses.append(each.mean())
    net.eval()
    x, target = batch(frames, STEPS + 1, dtype)
    results["last"] = F.cross_entropy(net(x), target, reduction="none")
    results["losses"] = torch.stack(losses)
    results["changes"] = torch.stack([row(t - before[n]) for n, t in tensors(net)])
    return results


def train_frames():
    frames = decode(os.environ.get("NIGHTSHIFT_SAMPLES", os.path.join(here, "../../../shared/data")) + "/video")
    golden = {"frames.sha256": torch.tensor(list(hashlib.sha256(frames.tobytes()).digest()), dtype=torch.uint8)}
    exact, single = train(frames, torch.float64), train(frames, torch.float32)
    for key, value in exact.items():
        value, error = value.detach(), (single[key].detach().double() - value.detach()).abs()
        if value.dim() == 2:
            rounding = error.amax(1) / value[:, 1]
            rounding = rounding.clamp(min=rounding.quantile(0.9))
        else:
            rounding = (error.max() / value.square().mean().sqrt()).reshape(1)
        golden["frames." + key] = value.float().contiguous()
        golden[f"frames.{key}.rounding"] = rounding.float().contiguous()
        print(key, "rounding", rounding.max().item(), file=sys.stderr)
    print(exact["losses"].tolist(), file=sys.stderr)
    save_file(golden, os.path.join(here, "resnet3d.safetensors"))


if "names" in parts:
    write("resnet3d.tsv", names())
if "frames" in parts:
    train_frames()
if "rounding" in parts:
    write("resnet3d_rounding.tsv", rounding())
