# nginx with two workers, asked by ab and by curl's like; it is reloaded and stopped by signals.
# shellcheck shell=bash disable=SC2034,SC2154 # Variables come from ci/suites.sh, and serve it.
packages="nginx-light apache2-utils"
limit=120

prepare() {
    /usr/bin/perl -e 'srand 1; print pack "C*", map int rand 256, 1 .. 65536 for 1 .. 20' >"$shared/bytes"
}

units() { printf '%s\n' small large kept gzip; }

run() {
    local port=18080 status=0 options='' path=small
    mkdir site logs
    echo small >site/small
    cp "$shared/bytes" site/large
    /usr/bin/perl -e 'print "line $_ of some text\n" for 1 .. 20000' >site/text.txt
    cat >nginx.conf <<END
daemon off; worker_processes 2; pid $PWD/pid; error_log $PWD/errors;
events { worker_connections 64; }
http { access_log off; gzip on; gzip_http_version 1.0; gzip_types text/plain; types { text/plain txt; } root $PWD/site;
client_body_temp_path $PWD/tmp; proxy_temp_path $PWD/tmp; fastcgi_temp_path $PWD/tmp; uwsgi_temp_path $PWD/tmp;
scgi_temp_path $PWD/tmp; server { listen 127.0.0.1:$port; } }
END
    # shellcheck disable=SC2086 # A list of words.
    env ${PRELOAD-} nginx -p "$PWD" -c "$PWD/nginx.conf" >output 2>&1 &
    local server=$!
    until [ -s pid ] && ab -n 1 "http://127.0.0.1:$port/small" >/dev/null 2>&1; do
        kill -0 "$server" 2>/dev/null || break
    done
    case $1 in
    large) path=large ;;
    kept) options=-k ;;
    gzip) path=text.txt options='-H Accept-Encoding:gzip' ;;
    esac
    local requests=5000
    [ "$path" = small ] || requests=300
    # shellcheck disable=SC2086 # Lists of words.
    env ${PRELOAD-} ab -q $options -n "$requests" -c 8 "http://127.0.0.1:$port/$path" >asked 2>&1 || status=$?
    printf 'status\t%s\n' "$status"
    sed -nE 's/^(Complete requests|Failed requests|Non-2xx responses|HTML transferred|Document Length): *(.*)/\1\t\2/p' asked
    kill -HUP "$server"
    status=0
    ab -q -n 100 "http://127.0.0.1:$port/small" >again 2>&1 || status=$?
    printf 'after a reload\t%s\n' "$status"
    kill -QUIT "$server"
    wait "$server"
    printf 'end of the server\t%s\n' "$?"
    grep -oE '\[(alert|crit|emerg|error)\]' errors | sed 's/^/the server says\t/'
}
