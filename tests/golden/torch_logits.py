#!/usr/bin/env python3
"""Whether PyTorch gives the logits that `predict` wrote, from weights that convert-weights wrote; prints the largest distance.

usage: torch_logits.py RUN DATASET FRAMES      (FRAMES: directory of the videos, LABEL/VIDEO/image_00001.jpg or .png ...)

The network is written down here after Hara et al. 2018 (resnet with basic or bottleneck blocks, shortcut B), reads its sizes from the
checkpoint's config.json, takes the file by load_state_dict(strict=True), and its optimizer takes the file's optimizer. Frames are
read, resized and cropped by Pillow.
"""
import glob
import json
import os
import subprocess
import sys

import numpy as np
import torch
from PIL import Image
from torch import nn

run, dataset, frames = sys.argv[1:4]
checkpoint = sorted(glob.glob(f"{run}/checkpoints/step-????????"))[-1]
with open(f"{checkpoint}/model/config.json") as file:
    config = json.load(file)
blocks = {10: [1, 1, 1, 1], 18: [2, 2, 2, 2], 34: [3, 4, 6, 3], 50: [3, 4, 6, 3]}[int(config["arch"].split("-")[1])]
deep = config["arch"].endswith("50")


def block_layers(inside, width, stride):
    kernels = ((1, 1), (3, stride), (1, 1)) if deep else ((3, stride), (3, 1))
    outs = (width, width, 4 * width) if deep else (width, width)
    for i, ((kernel, step), out) in enumerate(zip(kernels, outs), 1):
        yield f"conv{i}", nn.Conv3d(inside, out, kernel, step, kernel // 2, bias=False)
        yield f"bn{i}", nn.BatchNorm3d(out)
        inside = out


class Block(nn.Module):
    def __init__(self, inside, width, stride):
        super().__init__()
        self.count = 0
        for name, layer in block_layers(inside, width, stride):
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
    def __init__(self):
        super().__init__()
        widths = [int(w * config["widen_factor"]) for w in (64, 128, 256, 512)]
        time = config["conv1_t_size"]
        self.conv1 = nn.Conv3d(config["n_input_channels"], widths[0], (time, 7, 7), (config["conv1_t_stride"], 2, 2), (time // 2, 3, 3), bias=False)
        self.bn1 = nn.BatchNorm3d(widths[0])
        inside = widths[0]
        for i, (width, count) in enumerate(zip(widths, blocks), 1):
            layer = []
            for j in range(count):
                layer.append(Block(inside, width, 2 if i > 1 and j == 0 else 1))
                inside = 4 * width if deep else width
            self.add_module(f"layer{i}", nn.Sequential(*layer))
        self.fc = nn.Linear(inside, config["n_classes"])

    def forward(self, x):
        x = self.bn1(self.conv1(x)).relu()
        x = nn.functional.max_pool3d(x, 3, 2, 1) if config["max_pool"] else x
        for i in range(1, 5):
            x = getattr(self, f"layer{i}")(x)
        return self.fc(x.mean((2, 3, 4)))


subprocess.run(["convert-weights", run, f"{run}/weights.pth"], check=True)
saved = torch.load(f"{run}/weights.pth", weights_only=True)
network = ResNet().eval()
assert list(network.state_dict()) == list(saved["state_dict"]), "names in PyTorch's order"
network.load_state_dict(saved["state_dict"], strict=True)
optimizer = torch.optim.SGD(network.parameters(), lr=1, momentum=0.5)
optimizer.load_state_dict(saved["optimizer"])
for parameter in network.parameters():
    assert optimizer.state[parameter]["momentum_buffer"].shape == parameter.shape
scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [1])
scheduler.load_state_dict(saved["scheduler"])
assert scheduler.get_last_lr() == [group["lr"] for group in optimizer.param_groups], "rates of both"

size, length = config["sample_size"], config["sample_duration"]


def read(path):
    image = Image.open(path).convert("RGB")
    short = min(image.size)
    image = image.resize([size if s == short else int(size * s / short) for s in image.size], Image.BILINEAR)
    left, top = (round((s - size) / 2) for s in image.size)
    pixels = np.asarray(image.crop((left, top, left + size, top + size)), dtype=np.float32) / 255
    return (pixels - np.float32(config["mean"])) / np.float32(config["std"])


distance = worst = largest = count = 0
for path in sorted(glob.glob(f"{run}/predictions/{dataset}/*.npy")):
    name = os.path.basename(path)[:-4]
    images = [read(image) for image in sorted(glob.glob(f"{frames}/*/{name}/*.*g"))]
    starts = list(range(0, len(images) - length + 1, int(os.environ.get("STRIDE", length))))
    clips = torch.tensor(np.stack([images[s:s + length] for s in starts])).permute(0, 4, 1, 2, 3)
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
