#!/usr/bin/env python3
"""The training and inference loops of 3D-ResNets-PyTorch under current PyTorch, as spec'd by its behaviour: frames as JPEG files read by Pillow
in worker processes, random resized crops, a ResNet-18, SGD. For the bench.

classify.py frames FROM TO            PNG frame directories FROM/CLASS/ID as JPEG into TO
classify.py train DIR STEPS THREADS   "clips/s	seconds to the first step	peak bytes" at batch 8, 16 frames of 112x112
classify.py infer DIR/CLASS/ID THREADS COUNT   "seconds a video	peak bytes": all windows of a video in one batch, COUNT times
"""
import os
import sys
import time

start = time.time() - (time.clock_gettime(time.CLOCK_BOOTTIME) - float(open("/proc/self/stat").read().rsplit(")", 1)[1].split()[19]) / os.sysconf("SC_CLK_TCK"))

import json
import math
import random
import resource

import numpy
import torch
from PIL import Image
from torch import nn
from torch.nn import functional as F

MEAN, STD = torch.tensor([0.4345, 0.4051, 0.3775]), torch.tensor([0.2768, 0.2713, 0.2737])
SIZE, DURATION, BATCH = 112, 16, 8


# ---- the network ----

def conv3(ins, outs, stride=1):
    return nn.Conv3d(ins, outs, 3, stride, 1, bias=False)


class Block(nn.Module):
    def __init__(self, ins, outs, stride):
        super().__init__()
        self.conv1, self.bn1 = conv3(ins, outs, stride), nn.BatchNorm3d(outs)
        self.conv2, self.bn2 = conv3(outs, outs), nn.BatchNorm3d(outs)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or ins != outs:
            self.downsample = nn.Sequential(nn.Conv3d(ins, outs, 1, stride, bias=False), nn.BatchNorm3d(outs))

    def forward(self, x):
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        y += x if self.downsample is None else self.downsample(x)
        return self.relu(y)


class ResNet18(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.conv1 = nn.Conv3d(3, 64, 7, (1, 2, 2), 3, bias=False)
        self.bn1, self.relu, self.maxpool = nn.BatchNorm3d(64), nn.ReLU(inplace=True), nn.MaxPool3d(3, 2, 1)
        widths = (64, 64, 128, 256, 512)
        for i in range(1, 5):
            setattr(self, f"layer{i}", nn.Sequential(Block(widths[i - 1], widths[i], 1 if i == 1 else 2), Block(widths[i], widths[i], 1)))
        self.avgpool, self.fc = nn.AdaptiveAvgPool3d(1), nn.Linear(512, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv3d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        for i in range(1, 5):
            x = getattr(self, f"layer{i}")(x)
        return self.fc(self.avgpool(x).flatten(1))


# ---- frames ----

def load(path):
    with open(path, "rb") as file:
        with Image.open(file) as image:
            return image.convert("RGB")


def paths(video, numbers):
    for number in numbers:
        path = os.path.join(video, f"image_{number:05d}.jpg")
        if os.path.exists(path):
            yield path


def to_tensor(image):
    x = torch.from_numpy(numpy.array(image)).permute(2, 0, 1).contiguous().float().div(255)
    return x.sub_(MEAN[:, None, None]).div_(STD[:, None, None])


def random_crop(width, height):
    for _ in range(10):
        area = width * height * random.uniform(0.25, 1)
        ratio = math.exp(random.uniform(math.log(0.75), math.log(1 / 0.75)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            i, j = random.randint(0, height - h), random.randint(0, width - w)
            return j, i, j + w, i + h
    side = min(width, height)
    return (width - side) // 2, (height - side) // 2, (width + side) // 2, (height + side) // 2


def videos(directory):
    return sorted((name, os.path.join(directory, name, video)) for name in os.listdir(directory)
                  if os.path.isdir(os.path.join(directory, name)) for video in os.listdir(os.path.join(directory, name)))


class Clips(torch.utils.data.Dataset):
    def __init__(self, directory, length):
        self.items = videos(directory)
        self.labels = {name: i for i, name in enumerate(sorted({name for name, _ in self.items}))}
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, i):
        name, video = self.items[i % len(self.items)]
        count = len(os.listdir(video))
        begin = random.randint(0, max(0, count - DURATION - 1))
        images = [load(path) for path in paths(video, range(begin + 1, begin + 1 + DURATION))]
        box, mirrored = random_crop(*images[0].size), random.random() < 0.5
        clip = []
        for image in images:
            image = image.crop(box).resize((SIZE, SIZE), Image.BILINEAR)
            clip.append(to_tensor(image.transpose(Image.FLIP_LEFT_RIGHT) if mirrored else image))
        return torch.stack(clip, 0).permute(1, 0, 2, 3), self.labels[name]


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def train(directory, steps, threads):
    torch.set_num_threads(threads)
    net = ResNet18(400)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-3)
    loader = torch.utils.data.DataLoader(Clips(directory, BATCH * steps), batch_size=BATCH, shuffle=True, num_workers=threads)
    net.train()
    first = begin = 0
    for step, (clips, target) in enumerate(loader):
        if step == 0:
            first = time.time() - start
        if step == 2:
            begin = time.time()
        output = net(clips)
        loss = F.cross_entropy(output, target)
        _ = loss.item(), (output.argmax(1) == target).float().sum().item() / len(target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"{BATCH * (steps - 2) / (time.time() - begin):.4f}\t{first:.3f}\t{peak()}")


def infer(video, threads, count):
    torch.set_num_threads(threads)
    net = ResNet18(400).eval()
    best = math.inf
    for _ in range(count):
        begin = time.time()
        frames = len(os.listdir(video))
        windows = []
        for at in range(1, frames + 1, DURATION):
            numbers = list(range(at, min(at + DURATION, frames + 1)))
            numbers = [numbers[i % len(numbers)] for i in range(DURATION)]
            clip = []
            for path in paths(video, numbers):
                image = load(path)
                width, height = image.size
                size = (SIZE, int(SIZE * height / width)) if width < height else (int(SIZE * width / height), SIZE)
                image = image.resize(size, Image.BILINEAR)
                left, top = round((size[0] - SIZE) / 2), round((size[1] - SIZE) / 2)
                clip.append(to_tensor(image.crop((left, top, left + SIZE, top + SIZE))))
            windows.append(torch.stack(clip, 0).permute(1, 0, 2, 3))
        with torch.no_grad():
            scores = F.softmax(net(torch.stack(windows)), dim=1).mean(0)
        json.dumps([float(x) for x in scores.topk(5).values])
        best = min(best, time.time() - begin)
    print(f"{best:.4f}\t{peak()}")


def frames(source, target):
    for name, video in videos(source):
        directory = os.path.join(target, name, os.path.basename(video))
        os.makedirs(directory, exist_ok=True)
        for file in os.listdir(video):
            Image.open(os.path.join(video, file)).save(os.path.join(directory, file.replace(".png", ".jpg")), quality=85)


if sys.argv[1] == "frames":
    frames(sys.argv[2], sys.argv[3])
elif sys.argv[1] == "train":
    train(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
else:
    infer(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
