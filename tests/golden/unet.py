#!/usr/bin/env python3
"""Makes unet.safetensors, unet.json and unet.tsv with diffusers and PyTorch, in double precision.

For every number NAME there is also NAME.rounding: how far PyTorch's own single precision is from it (largest error over
the root mean square of the tensor; for rows of parameters, of each parameter's values, and at least the 90 % quantile of
the rows of the network).

unet.safetensors: for each block and network below, its output, the gradients of its inputs, and for each parameter
(names in byte order) a row of 11 numbers about its gradient: elements, root mean square, sum of g_j cos(0.7 j + 0.3)
over the root of the number of elements, and 8 evenly spaced elements. The network "adam" has losses, gradient norms
and such rows of the change of every parameter after ten steps.
embedding: the time embedding of 0, 1, 250, 500 and 999, width 320.
unet.json: diffusers' configuration of the network with Stable Diffusion 2's sizes and 8 channels in.
unet.tsv: its tensors: name, shape.

Everything is filled by formulas: element j (row-major) of the k-th parameter by name is 0.05 sin(1 + k + 0.37 j), plus 1
where the name contains `norm` and ends in `weight`; inputs are sin(phase + 0.61 j) in NCHW order. The loss is the mean of
(out - target)^2, target sin(2.5 + 0.37 j), over positions p = y W + x with p % 5 != 3.
"""
import json
import math
import os
import sys

import torch
from diffusers import UNet2DConditionModel
from diffusers.models.embeddings import get_timestep_embedding
from diffusers.models.resnet import ResnetBlock2D
from diffusers.models.transformers.transformer_2d import Transformer2DModel
from diffusers.models.unets.unet_2d_blocks import (CrossAttnDownBlock2D, CrossAttnUpBlock2D, DownBlock2D, UpBlock2D,
                                                   UNetMidBlock2DCrossAttn)
from safetensors.torch import save_file

torch.set_num_threads(1)
here = os.path.dirname(os.path.abspath(__file__))
results = {}


def wave(shape, phase, step=0.61):
    j = torch.arange(math.prod(shape), dtype=torch.float64)
    return torch.sin(phase + step * j).float().double().reshape(shape)


def fill(module, dtype):
    module.to(dtype).train()
    with torch.no_grad():
        for k, (name, parameter) in enumerate(sorted(module.named_parameters())):
            j = torch.arange(parameter.numel(), dtype=torch.float64).reshape(parameter.shape)
            value = 0.05 * torch.sin(1 + k + 0.37 * j) + ("norm" in name and name.endswith("weight"))
            parameter.copy_(value.float())


def loss_of(out, phase=2.5):
    n, c, h, w = out.shape
    p = torch.arange(h * w).reshape(h, w)
    mask = ((p % 5) != 3).expand(n, c, h, w)
    return ((out - wave(out.shape, phase, 0.37).to(out.dtype)) ** 2)[mask].mean()


def row(values):
    g = values.detach().flatten().double()
    n = g.numel()
    j = torch.arange(n, dtype=torch.float64)
    spaced = [g[i * (n - 1) // 7] for i in range(8)]
    return torch.stack([torch.tensor(float(n), dtype=torch.float64), g.square().mean().sqrt(),
                        (g * torch.cos(0.7 * j + 0.3)).sum() / math.sqrt(n)] + spaced)


def keep(exact, single):
    """Two runs: dictionaries of the same keys."""
    for key, value in exact.items():
        value, other = value.detach(), single[key].detach().double()
        error = (other - value).abs()
        if key.endswith("parameters"):
            rounding = error.amax(1) / value[:, 1]
            rounding = rounding.clamp(min=rounding.quantile(0.9))
        else:
            rounding = (error.max() / value.square().mean().sqrt()).reshape(1)
        results[key] = value.float().contiguous()
        results[key + ".rounding"] = rounding.float().contiguous()


def run_once(name, module, inputs, forward, dtype):
    fill(module, dtype)
    inputs = {key: tensor.detach().to(dtype).clone().requires_grad_(True) for key, tensor in inputs.items()}
    out = forward(module, **inputs)
    extra = ()
    if isinstance(out, tuple):
        out, extra = out
    loss = loss_of(out)
    loss.backward()
    numbers = {name + ".out": out, name + ".loss": loss.reshape(1)}
    numbers.update({f"{name}.skip{i}": skip for i, skip in enumerate(extra)})
    numbers.update({f"{name}.d_{key}": tensor.grad for key, tensor in inputs.items()})
    numbers[name + ".parameters"] = torch.stack([row(p.grad) for _, p in sorted(module.named_parameters())])
    module.zero_grad()
    return numbers


def run(name, module, inputs, forward):
    """inputs: name -> tensor with a gradient wanted."""
    keep(*(run_once(name, module, inputs, forward, dtype) for dtype in (torch.float64, torch.float32)))


common = dict(temb_channels=64, resnet_eps=1e-5, resnet_groups=4, num_layers=2)
cross = dict(cross_attention_dim=12, use_linear_projection=True)


def x(channels, h=5, w=7):
    return wave((2, channels, h, w), 0)


def time():
    return wave((2, 64), 0.25)


def context():
    return wave((2, 3, 12), 0.5)


run("resnet", ResnetBlock2D(in_channels=16, out_channels=16, temb_channels=64, groups=4, eps=1e-5),
    dict(x=x(16), time=time()), lambda m, x, time: m(x, time))
run("shortcut", ResnetBlock2D(in_channels=16, out_channels=24, temb_channels=64, groups=4, eps=1e-5),
    dict(x=x(16), time=time()), lambda m, x, time: m(x, time))
run("transformer", Transformer2DModel(num_attention_heads=3, attention_head_dim=8, in_channels=24, norm_num_groups=4, **cross),
    dict(x=x(24), context=context()), lambda m, x, context: m(x, encoder_hidden_states=context).sample)
run("down", CrossAttnDownBlock2D(in_channels=16, out_channels=16, num_attention_heads=2, downsample_padding=1, **common, **cross),
    dict(x=x(16), time=time(), context=context()), lambda m, x, time, context: m(x, time, context))
run("last_down", DownBlock2D(in_channels=16, out_channels=24, add_downsample=False, **common),
    dict(x=x(16), time=time()), lambda m, x, time: m(x, time))
run("middle", UNetMidBlock2DCrossAttn(in_channels=24, temb_channels=64, resnet_eps=1e-5, resnet_groups=4,
                                      num_attention_heads=3, **cross),
    dict(x=x(24), time=time(), context=context()), lambda m, x, time, context: m(x, time, context))
up = dict(common, num_layers=3)
run("up", CrossAttnUpBlock2D(in_channels=16, out_channels=24, prev_output_channel=24, num_attention_heads=3, **up, **cross),
    dict(x=x(24, 3, 4), skip0=wave((2, 16, 3, 4), 1), skip1=wave((2, 24, 3, 4), 2), skip2=wave((2, 24, 3, 4), 3), time=time(),
         context=context()),
    lambda m, x, skip0, skip1, skip2, time, context: m(x, (skip0, skip1, skip2), time, context, upsample_size=(5, 7)))
run("last_up", UpBlock2D(in_channels=16, out_channels=16, prev_output_channel=24, add_upsample=False, **up),
    dict(x=x(24), skip0=wave((2, 16, 5, 7), 1), skip1=wave((2, 16, 5, 7), 2), skip2=wave((2, 16, 5, 7), 3), time=time()),
    lambda m, x, skip0, skip1, skip2, time: m(x, (skip0, skip1, skip2), time))


def network(widths, heads, attention, layers, groups, context_width):
    down = ["CrossAttnDownBlock2D" if a else "DownBlock2D" for a in attention]
    up = ["CrossAttnUpBlock2D" if a else "UpBlock2D" for a in reversed(attention)]
    return UNet2DConditionModel(sample_size=96, in_channels=8, out_channels=4, block_out_channels=widths, down_block_types=down,
                                up_block_types=up, layers_per_block=layers, attention_head_dim=heads,
                                use_linear_projection=True, norm_num_groups=groups, cross_attention_dim=context_width)


run("toy", network((32, 64, 96, 96), (2, 4, 6, 6), (1, 1, 1, 0), 2, 8, 24),
    dict(x=wave((1, 8, 9, 13), 0), context=wave((1, 2, 24), 0.5)),
    lambda m, x, context: m(x, 500, encoder_hidden_states=context).sample)


def adam_once(name, clip, dtype):
    m = network((16, 32), (1, 2), (1, 0), 1, 4, 8)
    fill(m, dtype)
    start = {key: value.detach().clone() for key, value in m.named_parameters()}
    optimizer = torch.optim.Adam(m.parameters(), lr=1e-3, betas=(0.9, 0.999), eps=1e-8)
    losses, norms = [], []
    for k in range(10):
        optimizer.zero_grad()
        t = torch.tensor([100 * k + 7, 999 - 90 * k])
        out = m(wave((2, 8, 6, 5), k).to(dtype), t, encoder_hidden_states=wave((2, 2, 8), 0.5 + k).to(dtype)).sample
        loss = loss_of(out, 2.5 + 0.5 * k)
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(m.parameters(), clip))
        losses.append(loss)
        optimizer.step()
    return {name + ".losses": torch.stack(losses), name + ".norms": torch.stack(norms),
            name + ".parameters": torch.stack([row(p - start[key]) for key, p in sorted(m.named_parameters())])}


for name, clip in (("adam", 1e9), ("clipped", 0.1)):
    keep(*(adam_once(name, clip, dtype) for dtype in (torch.float64, torch.float32)))
# Single precision, as diffusers always computes it.
results["embedding"] = get_timestep_embedding(torch.tensor([0.0, 1.0, 250.0, 500.0, 999.0]), 320, flip_sin_to_cos=True,
                                              downscale_freq_shift=0)
save_file(results, os.path.join(here, "unet.safetensors"))

with torch.device("meta"):
    full = network((320, 640, 1280, 1280), (5, 10, 20, 20), (1, 1, 1, 0), 2, 32, 1024)
with open(os.path.join(here, "unet.tsv"), "w") as out:
    for key, tensor in sorted(full.state_dict().items()):
        out.write(f"{key}\t{'x'.join(map(str, tensor.shape))}\n")
with open(os.path.join(here, "unet.json"), "w") as out:
    config = {key: value for key, value in full.config.items() if not key.startswith("_use")}
    json.dump(dict(config, _class_name="UNet2DConditionModel"), out, indent=1, sort_keys=True)
    out.write("\n")
print(sum(p.numel() for p in full.parameters()), len(full.state_dict()), results["toy.out"].mean().item(), file=sys.stderr)
