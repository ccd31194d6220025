//! The declaration of a policy's parameters.

/// Declares the parameters of a policy, or of a table within them: a type with their defaults, and all descriptions. Of
/// each: its meaning, its name and type, its default, its range, and its unit if the type does not imply it.
///
/// ```ignore
/// parameters! {
///     /// The parameters of `example`.
///     pub struct ExampleConfig {
///         /// How often it looks (§4).
///         interval: Nanos = Nanos::from_millis(20), in Nanos::from_millis(1)..=Nanos::from_secs(1);
///     }
///     check(config) { Ok(()) }
/// }
/// ```
macro_rules! parameters {
    (
        $(#[$meta:meta])*
        pub struct $config:ident {
            $(
                $(#[doc = $doc:literal])+
                $name:ident: $type:ty = $default:expr $(, in $range:expr)? $(, unit $unit:literal)?;
            )*
        }
        check($this:ident) $check:block
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct $config {
            $($(#[doc = $doc])+ pub $name: $type,)*
        }

        impl Default for $config {
            fn default() -> $config {
                $config { $($name: $default,)* }
            }
        }

        impl $crate::parameter::Parameters for $config {
            const NAMES: &'static [&'static str] = &[$(stringify!($name),)*];

            fn table() -> Vec<$crate::parameter::Parameter> {
                #[allow(unused_variables, reason = "of a policy without parameters")]
                let config = $config::default();
                #[allow(unused_mut, reason = "of a policy without parameters")]
                let mut table = Vec::new();
                $({
                    let limits: $crate::parameter::Limits<$type> = $crate::parameter::limits!($($range)?);
                    #[allow(unused_mut, unused_assignments, reason = "most types say what they count")]
                    let mut unit: Option<&'static str> = None;
                    $(unit = Some($unit);)?
                    let meaning = concat!($($doc),+).trim_ascii();
                    $crate::parameter::declared(stringify!($name), &config.$name, limits, unit, meaning, &mut table);
                })*
                table
            }

            #[allow(unused_variables, reason = "of a policy without parameters")]
            fn read<'de, D: serde::Deserializer<'de>>(&mut self, name: &str, value: D) -> Result<(), D::Error> {
                match name {
                    $(stringify!($name) => {
                        let limits: $crate::parameter::Limits<$type> = $crate::parameter::limits!($($range)?);
                        self.$name = $crate::parameter::read(stringify!($name), limits, value)?;
                        Ok(())
                    })*
                    name => Err(serde::de::Error::custom(format!("there is no parameter '{name}'"))),
                }
            }

            fn check(&self) -> Result<(), String> {
                #[allow(unused_variables, reason = "some have nothing to check")]
                let $this = self;
                $check
            }
        }
    };
}

pub(crate) use parameters;
