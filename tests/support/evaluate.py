#!/usr/bin/env python3
"""The evaluation of depth predictions the way the Python projects of the field do it: a peer to be timed beside eval.

evaluate.py make TRUTH PREDICTIONS    float32 npy predictions for the samples of TRUTH/list.txt
evaluate.py score TRUTH PREDICTIONS   per-sample rows to stdout; means to stderr

A torch data loader reads the image, the depth twice (raw and filled) and makes masks; NumPy aligns by least squares;
each metric is a pass of its own in float32 torch; a pandas table keeps running means.
"""
import os
import sys

import numpy as np
import pandas as pd
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset

MINIMUM, MAXIMUM = 1e-3, 10.0


class Rooms(Dataset):
    def __init__(self, root):
        self.root = root
        with open(os.path.join(root, "list.txt")) as lines:
            self.names = [line.split() for line in lines]

    def __len__(self):
        return len(self.names)

    def _depth(self, name):
        depth = np.asarray(Image.open(os.path.join(self.root, name))) / 1000.0
        return torch.from_numpy(depth).float().unsqueeze(0)

    def _mask(self, depth):
        mask = torch.logical_and(depth > MINIMUM, depth < MAXIMUM)
        crop = torch.zeros_like(mask)
        crop[..., 45:471, 41:601] = True
        return torch.logical_and(mask, crop)

    def __getitem__(self, index):
        rgb_name, depth_name = self.names[index][:2]
        rgb = np.transpose(np.asarray(Image.open(os.path.join(self.root, rgb_name))), (2, 0, 1)).astype(int)
        raw, filled = self._depth(depth_name), self._depth(depth_name)
        return {
            "name": rgb_name, "rgb_int": torch.from_numpy(rgb).int(),
            "rgb_norm": torch.from_numpy(rgb / 255.0 * 2.0 - 1.0).float(),
            "raw": raw, "filled": filled, "mask_raw": self._mask(raw), "mask_filled": self._mask(filled)}


def align(truth, prediction, mask):
    a = np.concatenate([prediction[mask].reshape(-1, 1), np.ones((mask.sum(), 1), np.float32)], axis=1)
    scale, shift = np.linalg.lstsq(a, truth[mask].reshape(-1, 1), rcond=None)[0]
    return prediction * scale + shift


def over(x, mask):
    x[~mask] = 0
    return x.sum((-1, -2)) / mask.sum((-1, -2))


def share_below(p, g, mask, bound):
    hit = torch.where(torch.max(p / g, g / p) < bound, torch.ones_like(p), torch.zeros_like(p))
    return over(hit, mask)


def silog(p, g, mask):
    d = torch.log(p) - torch.log(g)
    return (over(d ** 2, mask) - over(d.clone(), mask) ** 2).sqrt() * 100


METRICS = {
    "abs_relative_difference": lambda p, g, m: over((p - g).abs() / g, m),
    "squared_relative_difference": lambda p, g, m: over((p - g).abs() ** 2 / g, m),
    "rmse_linear": lambda p, g, m: over((p - g) ** 2, m).sqrt(),
    "rmse_log": lambda p, g, m: over((torch.log(p) - torch.log(g)) ** 2, m).sqrt(),
    "log10": lambda p, g, m: (torch.log10(p[m]) - torch.log10(g[m])).abs().mean(),
    "delta1_acc": lambda p, g, m: share_below(p, g, m, 1.25),
    "delta2_acc": lambda p, g, m: share_below(p, g, m, 1.25 ** 2),
    "delta3_acc": lambda p, g, m: share_below(p, g, m, 1.25 ** 3),
    "i_rmse": lambda p, g, m: over((1 / p - 1 / g) ** 2, m).sqrt(),
    "silog_rmse": silog,
}


def prediction_path(predictions, name):
    return os.path.join(predictions, os.path.splitext(name)[0] + ".npy")


def make(root, predictions):
    rng = np.random.default_rng(0)
    for sample in Rooms(root):
        path = prediction_path(predictions, sample["name"])
        os.makedirs(os.path.dirname(path), exist_ok=True)
        depth = sample["raw"][0].numpy()
        np.save(path, (depth / 8 + 0.02 * rng.standard_normal(depth.shape)).astype(np.float32))


def score(root, predictions):
    table = pd.DataFrame(0.0, index=list(METRICS), columns=["total", "counts", "average"])
    print("#dataset", "sample", *METRICS, sep="\t")
    for data in DataLoader(Rooms(root), batch_size=1, num_workers=0):
        truth, mask = data["raw"].squeeze(), data["mask_raw"].squeeze()
        prediction = np.load(prediction_path(predictions, data["name"][0])).astype(np.float32)
        aligned = np.clip(align(truth.numpy(), prediction, mask.numpy()), MINIMUM, MAXIMUM)
        aligned = torch.from_numpy(np.clip(aligned, 1e-6, None).astype(np.float32))
        row = []
        for name, metric in METRICS.items():
            row.append(metric(aligned, truth, mask).item())
            table.loc[name, "total"] += row[-1]
            table.loc[name, "counts"] += 1
            table.loc[name, "average"] = table.total[name] / table.counts[name]
        print("nyu", data["name"][0], *row, sep="\t")
    print(table.average.to_string(), file=sys.stderr)


if len(sys.argv) != 4 or sys.argv[1] not in ("make", "score"):
    sys.exit(__doc__)
{"make": make, "score": score}[sys.argv[1]](*sys.argv[2:])
