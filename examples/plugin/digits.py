"""Draws crude digits on 8 x 8 pixels, with noise: records of 64 bytes and a class.

    python3 digits.py FILE [COUNT]
"""

import random
import sys

# 5 rows of 3 pixels for each digit.
GLYPHS = [
    "111101101101111", "010110010010111", "111001111100111", "111001111001111",
    "101101111001001", "111100111001111", "111100111101111", "111001010010010",
    "111101111101111", "111101111001111",
]


def record(generator):
    digit = generator.randrange(10)
    top, left = generator.randrange(4), generator.randrange(6)
    pixels = [generator.randrange(60) for _ in range(64)]
    for i, dot in enumerate(GLYPHS[digit]):
        if dot == "1":
            place = (top + i // 3) * 8 + left + i % 3
            pixels[place] = 180 + generator.randrange(76)
    return bytes(pixels + [digit])


def main():
    generator = random.Random(7)
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 4000
    with open(sys.argv[1], "wb") as out:
        for _ in range(count):
            out.write(record(generator))


if __name__ == "__main__":
    main()
