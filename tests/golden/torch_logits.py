#!/usr/bin/env python3
"""Whether PyTorch and `predict` give equal logits from one file of weights; prints the largest distance.

usage: torch_logits.py RUN DATASET FRAMES        RUN was trained: its weights as convert-weights writes them
       torch_logits.py RUN DATASET FRAMES FILE   RUN has no checkpoint: init.weights=FILE
       torch_logits.py --scores FILE FRAMES      a row for each video: name, probabilities of its first window (golden/torch/net.tsv)
       torch_logits.py --make FILE ARCH CLASSES WIDTH [--legacy]      FILE for the latter: random weights and statistics

FRAMES: directory of the videos, LABEL/VIDEO/image_00001.png ...

The network is written down here after Hara et al. 2018 (resnet with basic or bottleneck blocks, shortcut B). It takes the file by
load_state_dict(strict=True), and its optimizer and scheduler take the file's. Frames are read, resized and cropped by Pillow;
clips are of 8 frames of 24x24 pixels, as in the preset classify-tiny, at distances of STRIDE.
"""
import glob
import os
import subprocess
import sys

import numpy as np
import torch
from PIL import Image
from torch import nn


def block_layers(inside, width, stride, deep):
    kernels = ((1, 1), (3, stride), (1, 1)) if deep else ((3, stride), (3, 1))
    outs = (width, width, 4 * width) if deep else (width, width)
    for i, ((kernel, step), out) in enumerate(zip(kernels, outs), 1):
        yield f"conv{i}", nn.Conv3d(inside, out, kernel, step, kernel // 2, bias=False)
        yield f"bn{i}", nn.BatchNorm3d(out)
        inside = out


class Block(nn.Module):
    def __init__(self, inside, width, stride, deep):
        super().__init__()
        self.count = 0
        for name, layer in block_layers(inside, width, stride, deep):
            self.add_module(name, layer)
            self.count += name.startswith("conv")
            out = layer.weight.shape[0]
        if stride != 1 or inside != out:
            self.downsample = nn.Sequential(nn.Conv3d(inside, out, 1, stride, bias=False), nn.BatchNorm3d(out))

    def forward(self, x):
        y = x
        for i in range(1, self.count + 1):
            y = getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(y))
            y = y.relu() if i < self.count else y
        return (y + (self.downsample(x) if hasattr(self, "downsample") else x)).relu()


class ResNet(nn.Module):
    def __init__(self, arch, classes, width, time):
        super().__init__()
        depth = int(arch.split("-")[1])
        deep, blocks = depth >= 50, {10: [1, 1, 1, 1], 18: [2, 2, 2, 2], 34: [3, 4, 6, 3], 50: [3, 4, 6, 3]}[depth]
        self.conv1 = nn.Conv3d(3, width, (time, 7, 7), (1, 2, 2), (time // 2, 3, 3), bias=False)
        self.bn1 = nn.BatchNorm3d(width)
        inside = width
        for i, count in enumerate(blocks):
            layer = []
            for j in range(count):
                layer.append(Block(inside, width << i, 2 if i and j == 0 else 1, deep))
                inside = (width << i) * (4 if deep else 1)
            self.add_module(f"layer{i + 1}", nn.Sequential(*layer))
        self.fc = nn.Linear(inside, classes)

    def forward(self, x):
        x = self.bn1(self.conv1(x)).relu()
        x = nn.functional.max_pool3d(x, 3, 2, 1)
        for i in range(1, 5):
            x = getattr(self, f"layer{i}")(x)
        return self.fc(x.mean((2, 3, 4)))


def make(path, arch, classes, width, legacy):
    torch.manual_seed(3)
    network = ResNet(arch, classes, width, 3)
    network(torch.randn(4, 3, 8, 24, 24))  # statistics
    with torch.no_grad():
        network.fc.weight.mul_(20)  # so that videos differ
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    torch.save({"epoch": 7, "arch": arch, "state_dict": nn.DataParallel(network).state_dict() if legacy else network.state_dict(),
                "optimizer": optimizer.state_dict()}, path, _use_new_zipfile_serialization=not legacy)


def load(path):
    saved = torch.load(path, weights_only=True)
    state = {name.removeprefix("module."): value for name, value in saved["state_dict"].items()}
    network = ResNet(saved["arch"], len(state["fc.bias"]), len(state["bn1.bias"]), state["conv1.weight"].shape[2]).eval()
    assert list(network.state_dict()) == list(state), "names in PyTorch's order"
    network.load_state_dict(state, strict=True)
    return network, saved


size, length = 24, 8
mean, std = np.float32([0.4345, 0.4051, 0.3775]), np.float32([0.2768, 0.2713, 0.2737])  # of Kinetics


def read(path):
    image = Image.open(path).convert("RGB")
    short = min(image.size)
    image = image.resize([size if s == short else int(size * s / short) for s in image.size], Image.BILINEAR)
    left, top = (round((s - size) / 2) for s in image.size)
    pixels = np.asarray(image.crop((left, top, left + size, top + size)), dtype=np.float32) / 255
    return (pixels - mean) / std


def windows(directory):
    images = [read(image) for image in sorted(glob.glob(f"{directory}/*.*g"))]
    starts = range(0, len(images) - length + 1, int(os.environ.get("STRIDE", length)))
    return torch.tensor(np.stack([images[s:s + length] for s in starts])).permute(0, 4, 1, 2, 3)


if sys.argv[1] == "--make":
    make(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]), "--legacy" in sys.argv)
    sys.exit()

if sys.argv[1] == "--scores":
    network, saved = load(sys.argv[2])
    for directory in sorted(glob.glob(f"{sys.argv[3]}/*/*/"), key=lambda d: d.split("/")[-2]):
        with torch.no_grad():
            row = network.double()(windows(directory)[:1].double()).softmax(1)[0]
        print(directory.split("/")[-2], *(f"{float(score):.9g}" for score in row), sep="\t")
    sys.exit()

run, dataset, frames = sys.argv[1:4]
given = sys.argv[4] if len(sys.argv) > 4 else None
if not given:
    subprocess.run(["convert-weights", run, f"{run}/weights.pth"], check=True)
network, saved = load(given or f"{run}/weights.pth")
if not given:
    optimizer = torch.optim.SGD(network.parameters(), lr=1, momentum=0.5)
    optimizer.load_state_dict(saved["optimizer"])
    for parameter in network.parameters():
        assert optimizer.state[parameter]["momentum_buffer"].shape == parameter.shape
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [1])
    scheduler.load_state_dict(saved["scheduler"])
    assert scheduler.get_last_lr() == [group["lr"] for group in optimizer.param_groups], "rates of both"

distance = worst = largest = count = 0
for path in sorted(glob.glob(f"{run}/predictions/{dataset}/*.npy")):
    name = os.path.basename(path)[:-4]
    clips = windows(glob.glob(f"{frames}/*/{name}")[0])
    with torch.no_grad():
        logits = network(clips).double()
    scores, ours = logits.softmax(1).numpy(), np.load(path)
    assert ours.shape == scores.shape, "a row of scores a window"
    distance = max(distance, np.abs(scores - ours).max())
    # Scores give logits but for a constant a window, where float32 has not lost them.
    seen = (ours > 1e-6).all(1)
    if seen.any():
        centred = logits.numpy() - logits.mean(1, keepdim=True).numpy()
        back = np.log(ours.astype(np.float64))
        back -= back.mean(1, keepdims=True)
        worst = max(worst, np.abs(centred - back)[seen].max())
        largest = max(largest, np.abs(centred)[seen].max())
        count += seen.sum()
print(f"{len(saved['state_dict'])} tensors; scores differ by at most {distance:.3g}; logits of {count} windows, up to {largest:.3g}, by {worst:.3g}")
