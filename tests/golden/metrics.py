#!/usr/bin/env python3
"""Makes metrics.npy (maps) and metrics.tsv (numbers) with NumPy and PyTorch.

metrics.npy: float32 [case, 3, height, width]: prediction, truth, mask.
metrics.tsv: case, alignment, flow, scale, shift, then the ten metrics in the order of the evaluation of
Marigold (Ke et al. 2024). Flow `double` takes every formula in float64 on the aligned float32 map, ratios in
float32; flow `single` is the float32 flow of the original, by PyTorch on the CPU.
"""
import numpy as np
import torch

H, W = 23, 37
MINIMUM, MAXIMUM = 1e-3, 10.0


def cases(rng):
    truth = (0.4 + 8 * rng.random((H, W))).astype(np.float32)
    near = lambda noise: (truth / 9 + noise * rng.standard_normal((H, W))).astype(np.float32)
    whole = np.ones((H, W), bool)
    sparse = rng.random((H, W)) < 0.07
    one = np.zeros((H, W), bool)
    one[11, 5] = True
    holes = truth.copy()
    holes[rng.random((H, W)) < 0.3] = 0
    yield near(0.02), truth, whole
    yield near(0.2), truth, sparse
    yield 1 - near(0.05), truth, whole                                   # negative scale
    yield np.full((H, W), 0.3, np.float32), truth, whole                 # constant
    yield near(0.02), truth, one                                         # one pixel
    yield near(0.1), holes, holes > 0
    yield (near(0.01) + 4096).astype(np.float32), truth, whole           # large offset
    yield truth * np.float32(1.25), truth, whole                         # ratios at the threshold
    yield truth, truth, whole                                            # perfect
    inverse = (0.2 / truth + 0.01 * rng.standard_normal((H, W))).astype(np.float32)
    yield inverse, truth, rng.random((H, W)) < 0.8


def fit(p, g, mask):
    a = np.stack([p[mask], np.ones(mask.sum(), np.float32)], 1).astype(np.float64)
    return np.linalg.lstsq(a, g[mask].astype(np.float64), rcond=None)[0]


def align(kind, p, g, mask):
    s = t = 0.0
    if kind == "least-squares":
        s, t = fit(p, g, mask)
        p = p * np.float32(s) + np.float32(t)
    elif kind == "disparity":
        inverse = np.where(g > 0, 1 / np.where(g > 0, g, 1), 0).astype(np.float32)
        s, t = fit(p, inverse, mask & (g > 0) & (p > 0))
        p = 1 / np.clip(p * np.float32(s) + np.float32(t), np.float32(1e-3), None)
    return s, t, np.clip(np.clip(p, np.float32(MINIMUM), np.float32(MAXIMUM)), np.float32(1e-6), None)


def metrics_double(p, g, mask):
    p32, g32 = p[mask], g[mask]
    p, g = p32.astype(np.float64), g32.astype(np.float64)
    ratio = np.maximum(p32 / g32, g32 / p32)
    d = np.log(p / g)
    return [np.mean(np.abs(p - g) / g), np.mean((p - g) ** 2 / g), np.sqrt(np.mean((p - g) ** 2)),
            np.sqrt(np.mean(d * d)), np.mean(np.abs(d)) / np.log(10),
            *(np.mean(ratio < np.float32(1.25 ** k)) for k in (1, 2, 3)),
            np.sqrt(np.mean((1 / p - 1 / g) ** 2)),
            100 * np.sqrt(max(np.mean(d * d) - np.mean(d) ** 2, 0))]


def metrics_single(p, g, mask):
    p, g, mask = torch.from_numpy(p), torch.from_numpy(g), torch.from_numpy(mask)
    n = mask.sum()
    over = lambda x: torch.where(mask, x, torch.zeros(())).sum() / n
    ratio = torch.maximum(p / g, g / p)
    d = torch.log(p) - torch.log(g)
    variance = over(d * d) - over(d) ** 2
    return [float(x) for x in (
        over((p - g).abs() / g), over((p - g) ** 2 / g), over((p - g) ** 2).sqrt(), over(d * d).sqrt(),
        over((torch.log10(p) - torch.log10(g)).abs()),
        *(over((ratio < 1.25 ** k).float()) for k in (1, 2, 3)),
        over((1 / p - 1 / g) ** 2).sqrt(), 100 * variance.clamp_min(0).sqrt())]


def main():
    rng = np.random.default_rng(8)
    maps = []
    with open("metrics.tsv", "w") as out:
        for i, (p, g, mask) in enumerate(cases(rng)):
            maps.append(np.stack([p, g, mask.astype(np.float32)]))
            for kind in ("none", "least-squares", "disparity"):
                s, t, aligned = align(kind, p, g, mask)
                assert aligned.dtype == np.float32
                for flow, function in (("double", metrics_double), ("single", metrics_single)):
                    numbers = [s, t, *function(aligned, g, mask)]
                    print(i, kind, flow, *(f"{float(x):.17g}" for x in numbers), sep="\t", file=out)
    np.save("metrics.npy", np.stack(maps).astype(np.float32))


main()
