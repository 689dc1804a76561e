#!/usr/bin/env python3
"""Makes optimizer.tsv: parameters after steps of torch.optim.Adam, AdamW and SGD, for tests/cpu_numbers.c; "average" is the
mean of AdamW's that torch.optim.swa_utils keeps with a decay of 0.9, begun before the first step.

Parameter i starts at sin(1 + i), its gradient at step s is sin(3 + 0.7 i + 1.3 s) * 10 ** (1 - i % 9), all float32 (epsilon shows in the smallest); the
learning rate of step s is 0.01 * s.
"""
import os

import numpy as np
import torch
from torch.optim.swa_utils import get_ema_multi_avg_fn

COUNT, STEPS = 37, 6
os.chdir(os.path.dirname(os.path.abspath(__file__)))


def gradient(step):
    i = np.arange(COUNT)
    return torch.from_numpy((np.sin(3 + 0.7 * i + 1.3 * step) * 10.0 ** (1 - i % 9)).astype(np.float32))


def run(make, average=False):
    value = torch.nn.Parameter(torch.from_numpy(np.sin(1.0 + np.arange(COUNT)).astype(np.float32)))
    optimizer, rows, mean = make([value]), [], value.detach().clone()
    for step in range(1, STEPS + 1):
        optimizer.param_groups[0]["lr"] = 0.01 * step
        value.grad = gradient(step)
        optimizer.step()
        with torch.no_grad():
            get_ema_multi_avg_fn(0.9)([mean], [value.detach()], step)
        rows.append((mean if average else value.detach()).numpy().copy())
    return rows


with open("optimizer.tsv", "w", encoding="utf-8") as file:
    file.write("#optimizer\tstep\tvalues...\n")
    adamw = {"betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.1, "foreach": False}
    for name, make in (("adam", lambda p: torch.optim.Adam(p, betas=(0.9, 0.999), eps=1e-8, foreach=False)),
                       ("sgd", lambda p: torch.optim.SGD(p, lr=0, momentum=0, foreach=False)),
                       ("momentum", lambda p: torch.optim.SGD(p, lr=0, momentum=0.9, foreach=False)),
                       ("adam-decay", lambda p: torch.optim.Adam(p, **adamw)),
                       ("adamw", lambda p: torch.optim.AdamW(p, **adamw)),
                       ("average", lambda p: torch.optim.AdamW(p, **adamw)),
                       ("dampened", lambda p: torch.optim.SGD(p, lr=0, momentum=0.9, dampening=0.5, weight_decay=0.1,
                                                              foreach=False)),
                       ("nesterov", lambda p: torch.optim.SGD(p, lr=0, momentum=0.9, weight_decay=0.1, nesterov=True,
                                                              foreach=False))):
        for step, row in enumerate(run(make, name == "average"), 1):
            file.write("\t".join([name, str(step)] + ["%.9g" % v for v in row]) + "\n")
