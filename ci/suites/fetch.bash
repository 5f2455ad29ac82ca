# shellcheck shell=bash disable=SC2034,SC2154 # Variables come from ci/suites.sh, and serve it.
# fetch "PACKAGE...": unpacks Debian's source packages, as upstream made them, to $suites/src/PACKAGE. The lists of sources
# are apt's own copy below the target directory: the machine's configuration stays as it is.
fetch() {
    local package repository directory=$suites/apt
    for package in $1; do
        [ ! -e "$suites/src/$package" ] || continue
        if [ ! -e "$directory/ready" ]; then
            mkdir -p "$directory/lists/partial" "$directory/cache/archives/partial"
            # shellcheck disable=SC2016 # The variable is apt's.
            repository=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Codename: bookworm' |
                head -n 1)
            echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]" \
                "${repository:-http://deb.debian.org/debian} bookworm main" >"$directory/sources.list"
            cat >"$directory/apt.conf" <<END
APT::Sandbox::User "root";
Dir::State::Lists "$directory/lists";
Dir::Cache "$directory/cache";
Dir::Etc::SourceList "$directory/sources.list";
Dir::Etc::SourceParts "/dev/null";
Dir::Etc::Preferences "/dev/null";
Dir::Etc::PreferencesParts "/dev/null";
END
            APT_CONFIG=$directory/apt.conf apt-get update --quiet >&2
            touch "$directory/ready"
        fi
        rm -rf "$suites/src/$package.part"
        mkdir -p "$suites/src/$package.part"
        (
            cd "$suites/src/$package.part" || exit
            APT_CONFIG=$directory/apt.conf apt-get source --quiet --download-only "$package" >&2
            mkdir tree
            tar --extract --strip-components=1 --directory=tree --file="$(printf '%s\n' *.orig.tar.* | head -n 1)"
            chmod -R a+rX tree
            mv tree "$suites/src/$package"
        )
        rm -rf "$suites/src/$package.part"
    done
}
