#!/usr/bin/env python3
"""Makes classify.tsv with PyTorch, Pillow and the original's procedures: classify.py CLIPS WEIGHTS.

CLIPS is what `make-scenes clips -n 40 --seed 1 --size 32x48 --frames 12 --validation 2` renders; WEIGHTS are the initial weights of
the run of tests/classify.bats ("ten steps"), from one step of it at a rate and a decay of 0. A resnet-10 of width 0.125 and a first kernel of 3 frames; clips are the 8
frames in the middle, their short side scaled to 24, the middle 24x24 of them; all 20 training clips are one batch; SGD with momentum
0.9, decay 0.001 and Nesterov.

Rows: "step N LOSS ACCURACY" of ten steps, then by the weights after them "video ID P", the probability of the true class, the mean of two
windows of 8 frames, 4 apart. Beside each loss and P, what it is in double precision.
"""
import json
import os
import sys

import numpy
import torch
from PIL import Image
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional as F

clips, weights = sys.argv[1:]
MEAN, STD = torch.tensor([0.4345, 0.4051, 0.3775]), torch.tensor([0.2768, 0.2713, 0.2737])
SIZE, DURATION = 24, 8


class Block(nn.Module):
    def __init__(self, ins, outs, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv3d(ins, outs, 3, stride, 1, bias=False), nn.BatchNorm3d(outs)
        self.conv2, self.bn2 = nn.Conv3d(outs, outs, 3, 1, 1, bias=False), nn.BatchNorm3d(outs)
        self.downsample = None
        if stride != 1 or ins != outs:
            self.downsample = nn.Sequential(nn.Conv3d(ins, outs, 1, stride, bias=False), nn.BatchNorm3d(outs))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet10(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv3d(3, 8, (3, 7, 7), (1, 2, 2), (1, 3, 3), bias=False), nn.BatchNorm3d(8)
        for i, (ins, outs) in enumerate(((8, 8), (8, 16), (16, 32), (32, 64)), 1):
            setattr(self, f"layer{i}", nn.Sequential(Block(ins, outs, 1 if i == 1 else 2)))
        self.fc = nn.Linear(64, classes)

    def forward(self, x):
        x = F.max_pool3d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        for i in range(1, 5):
            x = getattr(self, f"layer{i}")(x)
        return self.fc(x.mean((2, 3, 4)))


def clip(video, numbers):
    frames = []
    for number in numbers:
        image = Image.open(os.path.join(video, f"image_{number:05d}.png")).convert("RGB")
        width, height = image.size
        size = (SIZE, int(SIZE * height / width)) if width < height else (int(SIZE * width / height), SIZE)
        image = image.resize(size, Image.BILINEAR)
        left, top = round((size[0] - SIZE) / 2), round((size[1] - SIZE) / 2)
        image = image.crop((left, top, left + SIZE, top + SIZE))
        x = torch.from_numpy(numpy.array(image)).permute(2, 0, 1).float().div(255)
        frames.append((x - MEAN[:, None, None]) / STD[:, None, None])
    return torch.stack(frames, 1)


annotation = json.load(open(os.path.join(clips, "annotation.json")))
labels = {name: i for i, name in enumerate(annotation["labels"])}


def videos(subset):
    for name, entry in annotation["database"].items():
        if entry["subset"] == subset:
            label = entry["annotations"]["label"]
            begin, end = entry["annotations"]["segment"]
            yield name, labels[label], os.path.join(clips, label, name), list(range(begin, end))


def run(dtype):
    net = ResNet10(len(labels)).to(dtype)
    missing, unexpected = net.load_state_dict({k: v.to(dtype) for k, v in load_file(weights).items()}, strict=False)
    assert not unexpected and all(name.endswith("num_batches_tracked") for name in missing)
    for module in net.modules():
        if isinstance(module, nn.BatchNorm3d):
            module.reset_running_stats()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-3, nesterov=True)
    inputs, targets = [], []
    for _, label, video, frames in videos("training"):
        begin = max(0, len(frames) // 2 - DURATION // 2)
        inputs.append(clip(video, frames[begin:begin + DURATION]))
        targets.append(label)
    inputs, targets = torch.stack(inputs).to(dtype), torch.tensor(targets)
    for _ in range(10):
        output = net(inputs)
        loss = F.cross_entropy(output, targets)
        yield loss.item(), (output.argmax(1) == targets).double().mean().item()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    net.eval()
    with torch.no_grad():
        for _, label, video, frames in videos("validation"):
            windows = torch.stack([clip(video, frames[at:at + DURATION]) for at in (0, 4)]).to(dtype)
            yield F.softmax(net(windows), 1).mean(0)[label].item(), None


ids = [name for name, *_ in videos("validation")]
print("#what\tname\tvalue\taccuracy\tdouble")
for i, ((value, accuracy), (exact, _)) in enumerate(zip(run(torch.float32), run(torch.float64))):
    what = ("step", i + 1) if accuracy is not None else ("video", ids[i - 10])
    print(*what, repr(value), "-" if accuracy is None else repr(accuracy), repr(exact), sep="\t")
