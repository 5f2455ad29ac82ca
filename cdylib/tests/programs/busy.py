"""CPU-bound work of two kinds, recursion and loops; prints what it computed."""
import sys


def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


def sieve(limit):
    prime = [True] * limit
    for i in range(2, limit):
        if prime[i]:
            for j in range(i * i, limit, i):
                prime[j] = False
    return sum(prime) - 2


def words(count):
    table = {}
    for i in range(count):
        key = "word%d" % (i % 997)
        table[key] = table.get(key, 0) + len(key)
    return sorted(table.items())[:3]


for _ in range(int(sys.argv[1])):
    print(fibonacci(23), sieve(60000), words(60000))
sys.exit(5)
