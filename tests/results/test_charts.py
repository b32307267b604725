"""What the charts share: colours that everyone can tell apart, and places on an axis."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mpc_spearman.results import charts

# Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB.
DEFICIENCIES = {
    "none": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}


@pytest.mark.parametrize("ramp", charts.ramps(), ids=["light", "dark"])
@pytest.mark.parametrize("deficiency", DEFICIENCIES)
def test_both_signs_can_be_told_apart_by_everyone(ramp: charts.Ramp, deficiency: str) -> None:
    def seen(colour: str) -> Any:
        srgb = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
        linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
        shifted = np.clip(DEFICIENCIES[deficiency] @ linear, 0, 1)
        return 255 * np.where(shifted <= 0.0031308, 12.92 * shifted, 1.055 * shifted ** (1 / 2.4) - 0.055)

    middle = charts.STEPS // 2
    for k in range(middle - 5):  # from a quarter of the scale on
        assert np.linalg.norm(seen(ramp.fills[k]) - seen(ramp.fills[-1 - k])) > 45


@pytest.mark.parametrize("ramp", charts.ramps(), ids=["light", "dark"])
def test_stronger_means_farther_from_the_page_and_numbers_stay_legible(ramp: charts.Ramp) -> None:
    light = [charts.luminance(fill) for fill in ramp.fills]
    middle = charts.STEPS // 2
    direction = np.sign(light[0] - light[middle])
    assert (np.diff(light[middle:]) * direction > 0).all()
    assert (np.diff(light[: middle + 1]) * direction < 0).all()
    for fill, text in zip(ramp.fills, ramp.texts, strict=True):
        assert charts.contrast(fill, text) >= 4.5
