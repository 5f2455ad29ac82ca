# CPU-bound work of two kinds, recursion and loops; prints what it computed.
use strict;
use warnings;

sub fibonacci {
    my ($n) = @_;
    return $n < 2 ? $n : fibonacci($n - 1) + fibonacci($n - 2);
}

sub words {
    my ($count) = @_;
    my %table;
    for my $i (0 .. $count - 1) {
        my $key = sprintf "word%d", $i % 997;
        $table{$key} += length $key;
        $table{$key} ^= 1 if $key =~ /^wor(d\d)5*$/;
    }
    return join ",", map { "$_=$table{$_}" } (sort keys %table)[0 .. 2];
}

for my $round (1 .. $ARGV[0]) {
    print fibonacci(20), " ", words(60000), "\n";
}
exit 6;
