"""The other end of client/data/tokenizer_process.h.

Arguments: the path of a tokenizer.json, the tokenizers version that is wanted,
and the folder that holds the package ("" for Python's own).

Frames, little-endian. Request: a byte that says what, uint32 length, payload.
Answer: a byte (0 done, 1 refused), uint32 length, payload; of a refusal a
message in UTF-8. A text that is not UTF-8 is refused with its number.

  (first) answer: uint32 size of the vocabulary
  E       uint32 n, n lengths uint32, n texts -> n counts uint32, all tokens
  P       one text, with the special tokens of a prompt -> tokens
  D       tokens -> text, without special tokens
  I       text of one token -> its number, or nothing
"""

import os
import struct
import sys


def write(status, payload):
    out = sys.stdout.buffer
    out.write(struct.pack("<BI", status, len(payload)))
    out.write(payload)
    out.flush()


def refuse(message):
    write(1, message.encode("utf-8", "replace"))


def read_exactly(count):
    data = sys.stdin.buffer.read(count)
    if len(data) < count:
        os._exit(0)  # the client is done
    return data


def pack(numbers):
    return struct.pack("<%dI" % len(numbers), *numbers)


def unpack(data):
    return list(struct.unpack("<%dI" % (len(data) // 4), data))


def load(path, version, packages):
    if packages:
        sys.path.insert(0, packages)
    try:
        import tokenizers
    except ImportError as error:
        return None, "Python has no tokenizers package (%s)" % error
    if tokenizers.__version__ != version:
        return None, "the tokenizers package of %s is version %s" % (
            os.path.dirname(tokenizers.__file__),
            tokenizers.__version__,
        )
    try:
        tokenizer = tokenizers.Tokenizer.from_file(path)
    except Exception as error:  # the library raises bare Exceptions
        return None, "%s is no tokenizer: %s" % (path, error)
    # A tokenizer.json may say how its author trained.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer, ""


def encode_texts(tokenizer, payload):
    (count,) = struct.unpack_from("<I", payload)
    lengths = struct.unpack_from("<%dI" % count, payload, 4)
    texts = []
    begin = 4 + 4 * count
    for i, length in enumerate(lengths):
        try:
            texts.append(payload[begin : begin + length].decode("utf-8"))
        except UnicodeDecodeError:
            raise ValueError("%d" % i)
        begin += length
    encodings = tokenizer.encode_batch_fast(texts, add_special_tokens=False)
    counts = []
    tokens = []
    for encoding in encodings:
        ids = encoding.ids
        counts.append(len(ids))
        tokens.extend(ids)
    return pack(counts) + pack(tokens)


def answer(tokenizer, what, payload):
    if what == b"E":
        return encode_texts(tokenizer, payload)
    if what == b"P":
        return pack(tokenizer.encode(payload.decode("utf-8")).ids)
    if what == b"D":
        return tokenizer.decode(unpack(payload)).encode("utf-8")
    if what == b"I":
        token = tokenizer.token_to_id(payload.decode("utf-8"))
        return b"" if token is None else pack([token])
    raise ValueError("unknown request")


def main():
    tokenizer, problem = load(*sys.argv[1:4])
    if tokenizer is None:
        refuse(problem)
        return
    write(0, pack([max(tokenizer.get_vocab(True).values(), default=-1) + 1]))
    while True:
        what = read_exactly(1)
        (length,) = struct.unpack("<I", read_exactly(4))
        payload = read_exactly(length)
        try:
            write(0, answer(tokenizer, what, payload))
        except (ValueError, OverflowError) as error:
            refuse("not UTF-8" if isinstance(error, UnicodeError) else str(error))


main()
