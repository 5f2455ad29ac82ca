// C++: classes, templates, overloads, lambdas, operators, exceptions, threads, standard containers.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>
static volatile unsigned long sink;
namespace shapes {
struct Shape {
    virtual ~Shape() {}
    virtual double area(int turns) const = 0;
    bool operator<(const Shape &other) const { return area(1) < other.area(1); }
};
template <typename T> struct Square : Shape {
    T side;
    explicit Square(T side) : side(side) {}
    double area(int turns) const override {
        double sum = 0;
        for (int turn = 0; turn < turns; turn++) sum += side * side;
        return sum;
    }
};
struct Named { std::string name; virtual ~Named() {} virtual const char *text() { return name.c_str(); } };
struct Circle : Shape, Named {
    double area(int turns) const override { sink += turns; return 3.14 * turns; }
    const char *text() override { return "circle"; }
};
namespace {
__attribute__((noinline)) int hidden(const std::vector<int> &numbers) {
    int sum = 0;
    for (int number : numbers) sum += number;
    return sum;
}
}
}
__attribute__((noinline)) void over(int steps) { for (int step = 0; step < steps; step++) sink += step; }
__attribute__((noinline)) void over(double steps) { over(static_cast<int>(steps)); }
__attribute__((noinline)) void over(const char *text, unsigned long long, char **) { sink += *text; }
template <typename First, typename... Rest> __attribute__((noinline)) int sum(First first, Rest... rest) {
    if constexpr (sizeof...(rest) == 0) return static_cast<int>(first);
    else return static_cast<int>(first) + sum(rest...);
}
__attribute__((noinline)) int throws(int turn) {
    try {
        if (turn % 2) throw std::runtime_error("odd");
        return 0;
    } catch (const std::exception &error) { return error.what()[0]; }
}
int operator+(const shapes::Named &left, int right) { return static_cast<int>(left.name.size()) + right; }
int main() {
    std::vector<std::unique_ptr<shapes::Shape>> all;
    for (int turn = 0; turn < 200; turn++) {
        if (turn % 3 == 0) all.emplace_back(new shapes::Square<int>(turn));
        else if (turn % 3 == 1) all.emplace_back(new shapes::Square<double>(turn * 0.5));
        else all.emplace_back(new shapes::Circle);
    }
    double total = 0;
    for (auto &shape : all) total += shape->area(500);
    std::sort(all.begin(), all.end(), [](const auto &left, const auto &right) { return *left < *right; });
    std::map<std::string, std::function<int(int)>> functions;
    functions["lambda"] = [&](int turn) { over(turn); return turn; };
    functions["throws"] = throws;
    for (int turn = 0; turn < 500; turn++)
        for (auto &[name, function] : functions) total += function(turn);
    std::vector<int> numbers(1000, 3);
    total += shapes::hidden(numbers) + sum(1, 2.0, 'c', 4L) + (shapes::Circle() + 3);
    over(2.0);
    over("text", 1, nullptr);
    std::thread thread([&] { over(100000); });
    thread.join();
    std::printf("%.0f\n", total);
}
