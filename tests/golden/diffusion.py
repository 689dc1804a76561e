#!/usr/bin/env python3
"""Makes diffusion.safetensors and diffusion.json with diffusers and PyTorch (single precision, as the original runs).

alpha_bar.plain, alpha_bar.zero: the schedules. timesteps: [spacing (trailing, leading, linspace), n - 1, 2]: number of
timesteps for n steps, and the sum of (k + 1) t_k. noise.*: forward process of the zero-SNR schedule at noise.t.
ddim.CASE: rows of the final sample for n in ddim.n, where the network's output is 0.25 x - 0.5.
rate.cosine: factors with 10 steps of warm-up, 100 in all. rate.exponential: no warm-up, ratio 0.05 in 80 steps.
diffusion.json: diffusers' file of the zero-SNR scheduler.
"""
import json
import os
import warnings

import torch
from diffusers import DDIMScheduler, DDPMScheduler
from diffusers.optimization import get_cosine_schedule_with_warmup
from safetensors.torch import save_file

warnings.simplefilter("ignore")
here = os.path.dirname(os.path.abspath(__file__))
results = {}
base = dict(num_train_timesteps=1000, beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear", steps_offset=1)
ddim = dict(base, clip_sample=False)


def wave(count, phase):
    return torch.sin(phase + 0.61 * torch.arange(count, dtype=torch.float64)).float()


results["alpha_bar.plain"] = DDIMScheduler(**ddim).alphas_cumprod
results["alpha_bar.zero"] = DDIMScheduler(**ddim, rescale_betas_zero_snr=True).alphas_cumprod

sums = torch.zeros(3, 1000, 2, dtype=torch.int64)
for i, spacing in enumerate(("trailing", "leading", "linspace")):
    scheduler = DDIMScheduler(**ddim, timestep_spacing=spacing)
    for n in range(1, 1001):
        scheduler.set_timesteps(n)
        t = scheduler.timesteps
        sums[i, n - 1, 0] = len(t)
        sums[i, n - 1, 1] = ((torch.arange(len(t)) + 1) * t).sum()
results["timesteps"] = sums

times = torch.tensor([0, 1, 249, 499, 749, 998, 999])
clean, noise = wave(16, 0.5).expand(7, 16), wave(16, 1.5).expand(7, 16)
process = DDPMScheduler(**base, rescale_betas_zero_snr=True, prediction_type="v_prediction")
results["noise.t"] = times
results["noise.noisy"] = process.add_noise(clean, noise, times)
results["noise.velocity"] = process.get_velocity(clean, noise, times)

counts = [1, 2, 3, 4, 10, 48, 50, 61]
results["ddim.n"] = torch.tensor(counts)
for name, words in {
    "v_zero_trailing": dict(rescale_betas_zero_snr=True, timestep_spacing="trailing", set_alpha_to_one=False),
    "v_zero_one": dict(rescale_betas_zero_snr=True, timestep_spacing="trailing", set_alpha_to_one=True),
    "v_plain_leading": dict(timestep_spacing="leading", set_alpha_to_one=False),
    "v_plain_linspace": dict(timestep_spacing="linspace", set_alpha_to_one=False),
    "epsilon_plain_leading": dict(timestep_spacing="leading", set_alpha_to_one=False, prediction_type="epsilon"),
    "sample_zero_trailing": dict(rescale_betas_zero_snr=True, timestep_spacing="trailing", set_alpha_to_one=False,
                                 prediction_type="sample"),
}.items():
    scheduler = DDIMScheduler(**dict(ddim, prediction_type="v_prediction"), **words) if "prediction_type" not in words else \
        DDIMScheduler(**ddim, **words)
    rows = []
    for n in counts:
        scheduler.set_timesteps(n)
        x = wave(16, 1.0)
        for t in scheduler.timesteps:
            x = scheduler.step(0.25 * x - 0.5, t, x).prev_sample
        rows.append(x)
    results["ddim." + name] = torch.stack(rows)

parameter = torch.nn.Parameter(torch.zeros(1))


def factors(make, count):
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    schedule = make(optimizer)
    rates = []
    for _ in range(count):
        rates.append(schedule.get_last_lr()[0])
        optimizer.step()
        schedule.step()
    return torch.tensor(rates, dtype=torch.float64)


results["rate.cosine"] = factors(lambda o: get_cosine_schedule_with_warmup(o, 10, 100), 101)
results["rate.exponential"] = factors(lambda o: torch.optim.lr_scheduler.ExponentialLR(o, 0.05 ** (1 / 80)), 81)
save_file({key: value.contiguous() for key, value in results.items()}, os.path.join(here, "diffusion.safetensors"))

written = DDIMScheduler(**ddim, prediction_type="v_prediction", rescale_betas_zero_snr=True, timestep_spacing="trailing",
                        set_alpha_to_one=False)
config = json.loads(written.to_json_string())
with open(os.path.join(here, "diffusion.json"), "w") as out:
    json.dump({key: value for key, value in config.items() if key != "_diffusers_version"}, out, indent=1, sort_keys=True)
    out.write("\n")
