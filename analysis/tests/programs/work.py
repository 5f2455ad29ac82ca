"""Dictionaries, strings and big integers, so that the interpreter's own functions take the time."""
import json
import re


def count(text):
    words = {}
    for word in re.findall(r"\w+", text):
        words[word] = words.get(word, 0) + 1
    return words


def power(base):
    return sum(pow(base, exponent, 10**40 + 7) for exponent in range(200))


text = " ".join(f"word{n * 7919 % 500}" for n in range(5000))
for turn in range(120):
    words = count(text)
    json.loads(json.dumps(words))
    power(turn + 3)
    sorted(words, key=words.get)
