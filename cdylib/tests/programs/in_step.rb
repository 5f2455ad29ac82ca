# Two threads take turns at the interpreter's timer, each 100 ms: `sort` and `inspect` begin to compute in step with it.
# usage: in_step.rb SECONDS. Prints the CPU time of each, by its thread's clock, and that of the process. ci/accuracy.py
# compares its profile with them.
finish = Process.clock_gettime(Process::CLOCK_MONOTONIC) + ARGV[0].to_f
numbers = Array.new(20_000) { |i| i * 7919 % 20_011 }
text = "a\n" * 20_000
work = { "sort" => -> { numbers.sort }, "inspect" => -> { text.inspect } }
threads = work.map do |name, compute|
  Thread.new do
    compute.call while Process.clock_gettime(Process::CLOCK_MONOTONIC) < finish
    [name, Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID)]
  end
end
threads.each { |thread| puts thread.value.join(" ") }
puts "all #{Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)}"
