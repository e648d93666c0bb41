"""Sample pictures, painted by this program, for users who have none at hand."""

from __future__ import annotations

import io
import math
import random
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

from beamsplit import extras

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["SCENES", "painted"]

Colour: TypeAlias = tuple[int, int, int]

WIDTH, HEIGHT = 480, 360


@cache
def painted(name: str) -> bytes:
    """Return a PNG file. It is the same on every machine, unless versions of Pillow round differently."""
    extras.need("PIL", "a sample picture", "vision")
    extras.need("numpy", "a sample picture", "vision")
    image = _photographed(SCENES[name]())
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


# Drawing


class Canvas:
    """A picture to draw on, with random numbers that are the same every time."""

    def __init__(self, seed: int) -> None:
        from PIL import Image, ImageDraw

        self.image = Image.new("RGB", (WIDTH, HEIGHT))
        self.draw: Any = ImageDraw.Draw(self.image)
        self.random = random.Random(seed)

    def fade(self, top: Colour, bottom: Colour, begin: int = 0, end: int = HEIGHT) -> None:
        for y in range(begin, end):
            part = (y - begin) / max(1, end - begin - 1)
            shade = tuple(round(a + (b - a) * part) for a, b in zip(top, bottom, strict=True))
            self.draw.line([(0, y), (WIDTH, y)], fill=shade)

    def disc(self, x: float, y: float, width: float, height: float, colour: Colour) -> None:
        self.draw.ellipse([x - width, y - height, x + width, y + height], fill=colour)

    def somewhere(self, radius: float) -> tuple[float, float]:
        """Return a random point in a disc around the middle, a little flatter than a circle."""
        angle, distance = self.random.random() * math.tau, radius * self.random.random() ** 0.5
        return WIDTH / 2 + distance * math.cos(angle), HEIGHT / 2 + 0.94 * distance * math.sin(angle)


def _photographed(canvas: Canvas) -> Image.Image:
    """Blur a picture and add noise: the network has only seen photographs."""
    import numpy as np
    from PIL import Image, ImageFilter

    pixels = np.asarray(canvas.image.filter(ImageFilter.GaussianBlur(0.9))).astype(np.float64)
    grain = np.random.default_rng(0).normal(0.0, 9.0, pixels.shape[:2])[..., None]
    return Image.fromarray((pixels + grain).clip(0, 255).astype(np.uint8))


# The scenes


def boat() -> Canvas:
    canvas = Canvas(seed=3)
    canvas.fade((90, 150, 215), (220, 235, 245), 0, 190)
    canvas.fade((50, 105, 150), (20, 60, 95), 190)
    for i in range(260):
        x, y = canvas.random.randrange(WIDTH), 200 + int(160 * canvas.random.random() ** 1.5)
        shade = (110, 160, 195) if i % 2 else (35, 85, 125)
        canvas.draw.line([(x, y), (x + 6 + (y - 190) // 6, y)], fill=shade, width=1 + (y - 190) // 70)
    canvas.draw.polygon([(120, 230), (360, 230), (320, 275), (160, 275)], fill=(150, 40, 30))
    canvas.draw.line([(120, 230), (360, 230)], fill=(240, 240, 235), width=6)
    canvas.draw.line([(240, 230), (240, 50)], fill=(90, 60, 40), width=5)
    canvas.draw.polygon([(247, 60), (247, 220), (345, 220)], fill=(250, 250, 245))
    canvas.draw.polygon([(233, 75), (233, 220), (150, 220)], fill=(235, 235, 228))
    return canvas


def bus() -> Canvas:
    canvas = Canvas(seed=4)
    canvas.fade((170, 190, 210), (215, 220, 225))
    for x in range(0, WIDTH, 70):
        top, grey = canvas.random.randrange(10, 70), 150 + canvas.random.randrange(40)
        canvas.draw.rectangle([x, top, x + 62, 250], fill=(grey, grey, grey))
    for x in range(8, WIDTH, 22):
        for y in range(80, 180, 26):
            canvas.draw.rectangle([x, y, x + 10, y + 14], fill=(90, 100, 115))
    canvas.draw.rectangle([0, 250, WIDTH, HEIGHT], fill=(85, 85, 88))
    canvas.draw.line([(0, 330), (WIDTH, 330)], fill=(230, 230, 220), width=5)
    canvas.draw.rounded_rectangle([70, 60, 410, 290], 14, fill=(190, 25, 30))
    for y in (80, 175):
        for x in range(85, 395, 53):
            canvas.draw.rounded_rectangle([x, y, x + 45, y + 55], 5, fill=(50, 65, 80))
            canvas.draw.line([(x + 5, y + 45), (x + 35, y + 8)], fill=(100, 120, 140), width=4)
    canvas.draw.rectangle([70, 150, 410, 158], fill=(240, 235, 220))
    for x in (135, 345):
        canvas.disc(x, 294, 32, 32, (25, 25, 25))
        canvas.disc(x, 294, 14, 14, (150, 150, 150))
    canvas.draw.rectangle([395, 240, 412, 255], fill=(255, 240, 180))
    return canvas


def clock() -> Canvas:
    canvas = Canvas(seed=2)
    canvas.fade((95, 150, 215), (205, 225, 240))
    for row, y in enumerate(range(60, HEIGHT, 10)):
        for x in range(165 - row % 2 * 10, 315, 20):
            shade = canvas.random.randrange(-15, 15)
            brick = (165 + shade, 115 + shade, 80 + shade)
            canvas.draw.rectangle([max(165, x), y, min(314, x + 18), y + 8], fill=brick)
    canvas.draw.polygon([(150, 62), (240, -20), (330, 62)], fill=(80, 75, 80))
    for y in (57, 235):
        canvas.draw.rectangle([155, y, 325, y + 11], fill=(205, 190, 165))
    canvas.disc(240, 145, 57, 57, (60, 55, 50))
    canvas.disc(240, 145, 50, 50, (245, 243, 232))
    for hour in range(12):
        right, down = math.cos(hour * math.tau / 12), math.sin(hour * math.tau / 12)
        ends = [(240 + r * right, 145 + r * down) for r in (38, 46)]
        canvas.draw.line(ends, fill=(30, 30, 30), width=4)
    canvas.draw.line([(240, 108), (240, 145), (265, 160)], fill=(20, 20, 20), width=5)
    for x in (190, 260):
        canvas.draw.rectangle([x, 270, x + 30, 330], fill=(45, 55, 70))
        canvas.draw.pieslice([x, 255, x + 30, 285], 180, 360, fill=(45, 55, 70))
    return canvas


def pizza() -> Canvas:
    canvas = Canvas(seed=5)
    canvas.fade((125, 80, 45), (95, 58, 30))
    for x in range(0, WIDTH, 60):
        canvas.draw.line([(x, 0), (x, HEIGHT)], fill=(80, 48, 25), width=2)
    plate = [(180, 170, (238, 238, 235)), (155, 148, (190, 125, 60)), (138, 132, (190, 60, 30))]
    for width, height, colour in [*plate, (132, 126, (240, 195, 95))]:
        canvas.disc(240, 180, width, height, colour)
    cheese = [(250, 220, 140), (225, 160, 70), (205, 100, 45), (245, 210, 120)]
    for _ in range(200):
        size = 4 + canvas.random.randrange(9)
        canvas.disc(*canvas.somewhere(125), size, size * 0.8, canvas.random.choice(cheese))
    for i in range(15):  # salami, evenly: a sunflower's spiral
        distance = 125 * math.sqrt(i + 0.6) / 4.1
        point = 240 + distance * math.cos(2.4 * i), 180 + 0.94 * distance * math.sin(2.4 * i)
        canvas.disc(*point, 19, 17, (150, 35, 25))
        canvas.disc(*point, 16, 14, (185, 55, 40))
    for _ in range(26):
        canvas.disc(*canvas.somewhere(120), 8, 4, (50, 100, 35))
    return canvas


SCENES: dict[str, Callable[[], Canvas]] = {"boat": boat, "pizza": pizza, "bus": bus, "clock": clock}
"""The pictures, by name."""
