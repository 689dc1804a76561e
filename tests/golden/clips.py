#!/usr/bin/env python3
"""Makes clips.safetensors: a small network over clips with PyTorch, in double precision, through ten steps of SGD.

Its layers are those of the 3D-ResNets: a stem with max pooling, a basic block, one with a projection, a bottleneck with
groups and a zero-padded shortcut, average pooling and a classifier; cross-entropy with smoothed labels.

For each RUN (the optimizer's settings): RUN.losses of the ten steps, RUN.first and RUN.last, the losses of the samples in
step 1 and after the last step by running statistics, RUN.gradients of step 1 and RUN.changes of the parameters and running
statistics after the last step: for each by name (byte order) a row of 11 numbers: elements, root mean square, sum of g_j cos(0.7 j + 0.3)
over the root of the number of elements, and 8 evenly spaced elements. For every number NAME there is also NAME.rounding: how
far PyTorch's own single precision is from it (largest error over the root mean square; of rows, each; at least their 90 %
quantile).

Element j (row-major) of the k-th tensor by name is 0.1 sin(1 + k + 0.37 j), weights of norms 1 + that, running statistics
0 and 1; the input of step s is sin(0.3 s + 0.61 j) in NCDHW order, classes (3 n + s) mod 10.
"""
import math
import os

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F

torch.set_num_threads(1)
here = os.path.dirname(os.path.abspath(__file__))
STEPS, SHAPE = 10, (3, 3, 8, 24, 26)
RUNS = {"dampened": {"momentum": 0.9, "dampening": 0.4, "weight_decay": 1e-2},
        "nesterov": {"momentum": 0.9, "nesterov": True, "weight_decay": 1e-3}}


class Block(nn.Module):
    def __init__(self, inner, outer, layers, shortcut=None):
        super().__init__()
        for i, layer in enumerate(layers, 1):
            setattr(self, f"conv{i}", layer)
            setattr(self, f"bn{i}", nn.BatchNorm3d(layer.out_channels))
        self.count, self.missing = len(layers), outer - inner
        if shortcut:
            self.downsample = nn.Sequential(shortcut, nn.BatchNorm3d(outer))

    def forward(self, x):
        y = x
        for i in range(1, self.count + 1):
            y = getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(y))
            y = F.relu(y) if i < self.count else y
        if hasattr(self, "downsample"):
            x = self.downsample(x)
        elif self.missing:
            x = F.pad(x[:, :, :, ::2, ::2], (0, 0, 0, 0, 0, 0, 0, self.missing))
        return F.relu(y + x)


def conv(inner, outer, kernel, stride=1, padding=0, groups=1):
    return nn.Conv3d(inner, outer, kernel, stride, padding, groups=groups, bias=False)


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = conv(3, 6, (3, 5, 5), (1, 2, 2), (1, 2, 2))
        self.bn1 = nn.BatchNorm3d(6)
        self.layer1 = Block(6, 6, [conv(6, 6, 3, 1, 1), conv(6, 6, 3, 1, 1)])
        self.layer2 = Block(6, 10, [conv(6, 10, 3, 2, 1), conv(10, 10, 3, 1, 1)], conv(6, 10, 1, 2))
        self.layer3 = Block(10, 16, [conv(10, 8, 1), conv(8, 8, 3, (1, 2, 2), 1, 2), conv(8, 16, 1)])
        self.fc = nn.Linear(16, 10)

    def forward(self, x):
        x = F.max_pool3d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.fc(F.avg_pool3d(x, (1, 2, 2)).mean((2, 3, 4)))


def tensors(network):
    return sorted((n, t) for n, t in network.state_dict(keep_vars=True).items() if not n.endswith("tracked"))


def fill(network):
    with torch.no_grad():
        for k, (name, tensor) in enumerate(tensors(network)):
            if "running" in name:
                continue
            j = torch.arange(tensor.numel(), dtype=torch.float64).reshape(tensor.shape)
            one = tensor.dim() == 1 and name.endswith("weight")
            tensor.copy_((0.1 * torch.sin(1 + k + 0.37 * j) + one).float())


def batch(step, dtype):
    j = torch.arange(math.prod(SHAPE), dtype=torch.float64)
    x = torch.sin(0.3 * step + 0.61 * j).float().to(dtype).reshape(SHAPE)
    return x, torch.tensor([(3 * n + step) % 10 for n in range(SHAPE[0])])


def row(values):
    g = values.detach().flatten().double()
    n = g.numel()
    j = torch.arange(n, dtype=torch.float64)
    spaced = [g[i * (n - 1) // 7] for i in range(8)]
    return torch.stack([torch.tensor(float(n), dtype=torch.float64), g.square().mean().sqrt(),
                        (g * torch.cos(0.7 * j + 0.3)).sum() / math.sqrt(n)] + spaced)


def run(settings, dtype):
    network = Network().to(dtype)
    fill(network)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.005, foreach=False, **settings)
    before = {n: t.detach().clone() for n, t in tensors(network)}
    results, losses = {}, []
    for step in range(1, STEPS + 1):
        x, target = batch(step, dtype)
        each = F.cross_entropy(network(x), target, label_smoothing=0.1, reduction="none")
        loss = each.mean()
        optimizer.zero_grad()
        loss.backward()
        if step == 1:
            results["first"] = each
            results["gradients"] = torch.stack([row(t.grad) for n, t in tensors(network) if "running" not in n])
        optimizer.step()
        losses.append(loss)
    network.eval()
    x, target = batch(STEPS + 1, dtype)
    results["last"] = F.cross_entropy(network(x), target, label_smoothing=0.1, reduction="none")
    results["losses"] = torch.stack(losses)
    results["changes"] = torch.stack([row(t - before[n]) for n, t in tensors(network)])
    return results


golden = {}
for name, settings in RUNS.items():
    exact, single = run(settings, torch.float64), run(settings, torch.float32)
    for key, value in exact.items():
        value, error = value.detach(), (single[key].detach().double() - value.detach()).abs()
        if value.dim() == 2:
            rounding = error.amax(1) / value[:, 1]
            rounding = rounding.clamp(min=rounding.quantile(0.9))
        else:
            rounding = (error.max() / value.square().mean().sqrt()).reshape(1)
        golden[f"{name}.{key}"] = value.float().contiguous()
        golden[f"{name}.{key}.rounding"] = rounding.float().contiguous()
        print(name, key, "rounding", rounding.max().item())
    print(name, exact["losses"].tolist())
save_file(golden, os.path.join(here, "clips.safetensors"))
