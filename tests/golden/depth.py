#!/usr/bin/env python3
"""Makes the numbers that tests/depth.c compares with, by PyTorch.

resize_in.npy: [19, 31, 3]. resize_out.npy: the resized rasters one after the other, in the order of RESIZES;
kinds 0 bilinear and 1 bicubic are torch's anti-aliased interpolation, 2 is nearest-exact.
nearest.npy: source indices of nearest-exact for the pairs of NEAREST, one after the other.
normalise.npy: [case, 3, 40, 50]: depth, mask, normalised by 2 % and 98 % quantiles to [-1, 1] without filling.
"""
import numpy as np
import torch
import torch.nn.functional as F

RESIZES = [(kind, h, w) for h, w in ((7, 11), (19, 12), (38, 62), (5, 80), (1, 1)) for kind in (0, 1, 2)]
NEAREST = [(768, 480), (1024, 640), (480, 96), (1242, 1216), (7, 3), (14, 3), (3, 14), (375, 352), (1000, 999)]


def resize(image, kind, h, w):
    x = torch.from_numpy(image).permute(2, 0, 1)[None]
    if kind == 2:
        y = F.interpolate(x, (h, w), mode="nearest-exact")
    else:
        y = F.interpolate(x, (h, w), mode=("bilinear", "bicubic")[kind], align_corners=False, antialias=True)
    return y[0].permute(1, 2, 0).contiguous().numpy()


def normalise(depth, mask):
    d = torch.from_numpy(depth)
    valid = torch.from_numpy(mask) & (d > 0)
    lo, hi = torch.quantile(d[valid], torch.tensor([0.02, 1 - 0.02]))
    return (((d - lo) / (hi - lo)) * 2.0 + -1.0).clip(-1.0, 1.0).numpy()


def main():
    rng = np.random.default_rng(5)
    image = (255 * rng.random((19, 31, 3))).astype(np.float32)
    np.save("resize_in.npy", image)
    np.save("resize_out.npy", np.concatenate([resize(image, *r).ravel() for r in RESIZES]))
    sources = []
    for n, m in NEAREST:
        x = torch.arange(n, dtype=torch.float32)[None, None]
        sources.append(F.interpolate(x, m, mode="nearest-exact")[0, 0].numpy())
    np.save("nearest.npy", np.concatenate(sources))
    cases = []
    for share, scale in ((1.0, 1000), (0.6, 1000), (0.05, 256), (0.9, 1e9)):
        depth = (np.round((0.5 + 8 * rng.random((40, 50)) ** 2) * scale) / scale).astype(np.float32)
        mask = rng.random((40, 50)) < share
        depth[~mask & (rng.random((40, 50)) < 0.5)] = 0
        cases.append(np.stack([depth, mask.astype(np.float32), normalise(depth, mask)]))
    np.save("normalise.npy", np.stack(cases))


main()
